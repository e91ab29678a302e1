//! TLS with rustls and its ring provider, named here so that no process-wide default is needed.

use std::sync::Arc;

use coord_core::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::config::{Address, Config};

pub(crate) async fn connect(
    config: &Config,
    address: &Address,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>> {
    let what = format!("TLS handshake with redis at {address}");
    let name = ServerName::try_from(address.host.clone())
        .map_err(|error| Error::invalid(what.clone()).with_source(error))?;
    TlsConnector::from(Arc::new(client_config(config)?))
        .connect(name, stream)
        .await
        .map_err(|error| {
            let what = match remedy(&error) {
                Some(remedy) => format!("{what}: {remedy}"),
                None => what,
            };
            Error::unavailable(what).with_source(error)
        })
}

/// What to do about a handshake that failed.
fn remedy(error: &std::io::Error) -> Option<&'static str> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidMessage(_) => Some("it does not speak TLS; take a redis:// URL"),
        rustls::Error::InvalidCertificate(_) => {
            Some("its certificate is not trusted for this name; give its authority as CA file")
        }
        _ => None,
    }
}

/// The provider is also made the process's default, once, for the pool's connections: without
/// one the client under it panics.
pub(crate) fn install_provider() {
    // An error says that the application has installed one already, which serves as well.
    _ = rustls::crypto::ring::default_provider().install_default();
}

fn client_config(config: &Config) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::invalid("TLS protocol versions").with_source(error))?;
    Ok(builder
        .with_root_certificates(roots(config)?)
        .with_no_client_auth())
}

fn roots(config: &Config) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &config.ca_file else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    let what = || format!("reading the CA file {}", path.display());
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|error| Error::invalid(what()).with_source(error))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| Error::invalid(what()).with_source(error))?;
        roots
            .add(certificate)
            .map_err(|error| Error::invalid(what()).with_source(error))?;
    }
    if roots.is_empty() {
        return Err(Error::invalid(format!(
            "{}: it holds no certificate",
            what()
        )));
    }
    Ok(roots)
}
