//! Tenants by name.

use coord_core::{Error, Result};

use crate::engine::Engine;
use crate::model::Namespace;
use crate::store::{
    Declaration, Declarations, Declared, MAX_DECLARATIONS, NamespaceChange, NamespaceListing,
    NamespacePage, NamespaceRecord, NewNamespace,
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

    /// Declares a search attribute of a namespace, for people and tools to find: what runs are
    /// given is not held against it. Declarations at the same instant may go beyond the most that a
    /// namespace has by as many as they are.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer. `Contended` when it was
    /// withdrawn at the same instant.
    ///
    /// # Cancel safety
    /// Dropped, it may be declared.
    pub async fn declare_attribute(&self, new: &Declaration) -> Result<Declared> {
        let store = &self.core.store;
        if store.declare_attribute(new).await? {
            return Ok(Declared::Now);
        }
        let declared = store.declared_attributes(&new.namespace).await?;
        match declared.get(&new.name) {
            Some(kind) => Ok(Declared::Before(*kind)),
            None if declared.len() >= MAX_DECLARATIONS as usize => {
                Ok(Declared::Full(MAX_DECLARATIONS))
            }
            None => Err(Error::contended("declaring a search attribute")),
        }
    }

    /// Takes the declaration of a search attribute back. Whether it was declared. Runs keep what
    /// they have of it.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped, it may be withdrawn.
    pub async fn withdraw_attribute(&self, namespace: &Namespace, name: &str) -> Result<bool> {
        self.core.store.withdraw_attribute(namespace, name).await
    }

    /// The search attributes that a namespace declares.
    ///
    /// # Errors
    /// `Unavailable` or `Timeout` when the database does not answer.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn declared_attributes(&self, namespace: &Namespace) -> Result<Declarations> {
        self.core.store.declared_attributes(namespace).await
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
