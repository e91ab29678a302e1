//! Resource leases.
