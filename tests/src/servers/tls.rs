//! A certificate authority for one server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::ports;

/// A server's second port, and who vouches for it.
pub(super) struct Tls {
    pub(super) port: u16,
    pub(super) ca: PathBuf,
}

/// Writes a new authority and a certificate for `names` into `folder`, and returns the arguments
/// with which a server uses them.
pub(super) fn arguments(folder: &Path, names: &[String]) -> (Tls, Vec<String>) {
    let port = ports::free();
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::write(&file, text).expect("an own folder can be written");
        file
    };
    let (ca, certificate, key) = issue(names).expect("names of a test are valid");
    let ca = write("ca.pem", &ca);
    let files = [
        ("--tls-ca-cert-file", ca.clone()),
        ("--tls-cert-file", write("server.pem", &certificate)),
        ("--tls-key-file", write("server.key", &key)),
    ];
    let mut args = ["--tls-port", &port.to_string(), "--tls-auth-clients", "no"]
        .map(str::to_owned)
        .to_vec();
    for (option, file) in files {
        args.extend([option.to_owned(), file.display().to_string()]);
    }
    (Tls { port, ca }, args)
}

/// The authority's certificate, the server's certificate and the server's key, as PEM.
fn issue(names: &[String]) -> Result<(String, String, String), rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(names.to_vec())?.signed_by(&key, &authority)?;
    Ok((authority.pem(), certificate.pem(), key.serialize_pem()))
}
