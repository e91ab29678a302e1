//! Publish and subscribe on Redis that knows what it missed.
