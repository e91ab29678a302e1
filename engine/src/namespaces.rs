//! Tenants by name.

use coord_core::Result;

use crate::engine::Engine;
use crate::model::Namespace;
use crate::store::{
    NamespaceChange, NamespaceListing, NamespacePage, NamespaceRecord, NewNamespace,
};

impl Engine {
    /// Registers `namespace`, for people to find; one that is not registered serves as well. Its
    /// closed runs are kept for `retention`: see [`Client::keep_closed_runs`](crate::client::Client::keep_closed_runs). Whether it was not
    /// registered before; one that was is left as it is.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may be registered.
    pub async fn create_namespace(&self, namespace: &NewNamespace) -> Result<bool> {
        self.core.store.create_namespace(namespace).await
    }

    /// Changes what a namespace was registered with, as far as `change` says. Whether it is
    /// registered: one that is not is left so.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may be changed.
    pub async fn change_namespace(&self, change: &NamespaceChange) -> Result<bool> {
        self.core.store.change_namespace(change).await
    }

    /// What `namespace` was registered with; `None` if it was not.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn describe_namespace(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<NamespaceRecord>> {
        self.core.store.describe_namespace(namespace).await
    }

    /// The namespaces that are registered, by their names, a page at a time.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn list_namespaces(&self, listing: &NamespaceListing) -> Result<NamespacePage> {
        self.core.store.list_namespaces(listing).await
    }
}
