//! A cache on Redis with one load a key across instances, and a near cache kept true.
