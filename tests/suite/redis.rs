//! Connections, scripts and subscriptions under real faults.
