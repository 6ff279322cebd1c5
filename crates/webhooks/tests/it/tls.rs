//! TLS: the certificate must be by a trusted authority and for the name.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use reqwest::header::HeaderMap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use webhooks::Settings;
use webhooks::address::Policy;
use webhooks::client::Client;
use webhooks::target::Target;

use crate::hostile::Fixed;

const CA: &[u8] = include_bytes!("tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("tls/hooks.pem");
const KEY: &[u8] = include_bytes!("tls/hooks.key");

/// A server for `hooks.test` that accepts every event.
fn serve() -> Result<SocketAddr> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from_pem_slice(CERTIFICATE)?], PrivateKeyDer::from_pem_slice(KEY)?)?;
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0")?);
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(connection) = rustls::ServerConnection::new(config.clone()) else { return };
            let mut tls = rustls::StreamOwned::new(connection, stream);
            let mut request = [0; 4_096];
            if tls.read(&mut request).is_ok_and(|count| count > 0) {
                let _ = tls.write_all(b"HTTP/1.1 204 OK\r\nconnection: close\r\n\r\n");
                let _ = tls.flush();
            }
        }
    });
    Ok(address)
}

#[tokio::test]
async fn only_a_trusted_certificate_for_the_name_is_posted_to() -> Result<()> {
    let address = serve()?;
    let plain = crate::receiver::Receiver::good().await;
    let settings = Settings { allow_local: true, attempt_timeout: Duration::from_secs(5), ..Settings::default() };
    let trusted = [CertificateDer::from_pem_slice(CA)?];
    for (what, host, roots, code) in [
        ("trusted and for the name", "hooks.test", &trusted[..], Some(204)),
        ("for another name", "other.test", &trusted[..], None),
        ("by nobody known", "hooks.test", &[][..], None),
    ] {
        let client = Client::with(&settings, Arc::new(Fixed(vec![address])), roots)?;
        let target = Target::new(&format!("https://{host}:{}/", address.port()), &[], Policy { allow_local: true })?;
        let reply = client.post(&target, HeaderMap::new(), b"{}".to_vec()).await;
        ensure!(reply.code == code, "{what}: {reply:?}");
        ensure!(code.is_some() || reply.error.is_some(), "{what}: {reply:?}");
    }
    // A server that does not speak TLS at all.
    let port = plain.url.split(':').nth(2).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let client = Client::with(&settings, Arc::new(Fixed(vec![format!("127.0.0.1:{port}").parse()?])), &trusted)?;
    let target = Target::new(&format!("https://hooks.test:{port}/"), &[], Policy { allow_local: true })?;
    let reply = client.post(&target, HeaderMap::new(), b"{}".to_vec()).await;
    ensure!(reply.code.is_none() && reply.error.is_some() && plain.count() == 0, "{reply:?}");
    Ok(())
}
