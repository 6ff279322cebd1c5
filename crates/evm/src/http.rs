//! HTTP clients. TLS is rustls with ring, the one provider in the binary.

/// A client to be configured. Proxies of the environment are not used: signed transactions go where the configuration
/// says.
pub fn client() -> reqwest::ClientBuilder {
    // The second and every later call finds the provider installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}
