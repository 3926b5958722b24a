//! What TLS trusts: the built-in authorities, one file, or (said on every report) anything.

use std::fs;
use std::io::{self, Read};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Why TLS could not be set up.
#[derive(Debug)]
pub enum TlsError {
    /// The file of authorities could not be read, or holds none.
    Ca {
        /// The file.
        path: String,
        /// What was wrong with it.
        reason: String,
    },
    /// The library refused the settings.
    Settings(rustls::Error),
}

impl std::fmt::Display for TlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ca { path, reason } => {
                write!(f, "The certificate authority file {path}: {reason}.")
            }
            Self::Settings(error) => write!(f, "TLS could not be set up: {error}."),
        }
    }
}

impl std::error::Error for TlsError {}

/// The settings of one run's TLS connections. Sessions are not resumed, so that every handshake is a whole one.
pub fn client(ca: Option<&str>, insecure: bool) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Settings)?;
    let mut config = if insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
            .with_no_client_auth()
    } else {
        builder
            .with_root_certificates(roots(ca)?)
            .with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

fn roots(ca: Option<&str>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    let wrong = |reason: String| TlsError::Ca {
        path: path.to_owned(),
        reason,
    };
    let pem = read(path).map_err(wrong)?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("it holds no certificate".to_owned()));
    }
    Ok(roots)
}

/// Longest file of authorities; those of whole systems are about 250 KiB.
const LONGEST_CA: u64 = 4 << 20;

/// The file's bytes. A device or a pipe may never end, and no stop could reach the run that waits for it.
fn read(path: &str) -> Result<Vec<u8>, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(LONGEST_CA + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LONGEST_CA {
        return Err(format!("it is larger than {} MiB", LONGEST_CA >> 20));
    }
    Ok(bytes)
}

/// The name that the peer's certificate must carry: a host name or an address.
pub fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Accepts every certificate; signatures of the handshake are still checked.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_come_from_a_regular_file_of_a_sane_size() {
        for endless in ["/dev/zero", "/"] {
            let error = client(Some(endless), false).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        let path = std::env::temp_dir().join(format!("tidemark-ca-{}.pem", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        file.set_len(LONGEST_CA + 1).unwrap();
        let error = client(path.to_str(), false).unwrap_err().to_string();
        assert!(error.contains("larger than 4 MiB"), "{error}");
        file.set_len(LONGEST_CA).unwrap();
        let error = client(path.to_str(), false).unwrap_err().to_string();
        assert!(error.contains("no certificate"), "{error}");
        fs::remove_file(&path).unwrap();
    }
}
