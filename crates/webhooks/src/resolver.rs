//! Name lookups whose answers are judged before a connection is made: what was judged is what is connected to, so that
//! a name cannot change its mind in between.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::Policy;

/// Addresses of one name that are looked at; more are not tried.
const MAX_ADDRESSES: usize = 16;

/// The resolver of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Passes on the answer of another resolver if every address in it may be posted to.
#[derive(Clone)]
pub struct GuardedResolver {
    pub inner: Arc<dyn Resolve>,
    pub policy: Policy,
}

impl fmt::Debug for GuardedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedResolver").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name has no address")]
struct NoAddress;

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (answer, policy) = (self.inner.resolve(name), self.policy);
        Box::pin(async move {
            let found: Vec<SocketAddr> = answer.await?.take(MAX_ADDRESSES).collect();
            if found.is_empty() {
                return Err(NoAddress.into());
            }
            // One refused address spoils the answer: a name that mixes them is up to something.
            for address in &found {
                policy.check(address.ip())?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Gives one answer after the other.
    struct Scripted(Mutex<Vec<Vec<&'static str>>>);

    impl Resolve for Scripted {
        fn resolve(&self, _: Name) -> Resolving {
            let answer = self.0.lock().unwrap().pop().unwrap_or_default();
            let found: Vec<SocketAddr> = answer.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect();
            Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
        }
    }

    async fn ask(guarded: &GuardedResolver) -> Result<Vec<String>, String> {
        let answer = guarded.resolve("hooks.example.com".parse().unwrap()).await;
        answer.map(|found| found.map(|it| it.ip().to_string()).collect()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn an_answer_with_one_refused_address_is_refused_whole() {
        for (answer, refused) in [
            (vec!["8.8.8.8"], None),
            (vec!["8.8.8.8", "2606:4700:4700::1111"], None),
            (vec!["127.0.0.1"], Some("loopback")),
            (vec!["8.8.8.8", "127.0.0.1"], Some("loopback")),
            (vec!["127.0.0.1", "8.8.8.8"], Some("loopback")),
            (vec!["8.8.8.8", "::ffff:169.254.169.254"], Some("link-local or a metadata service")),
            (vec!["100.100.100.200"], Some("private network")),
            (vec!["0.0.0.0"], Some("not a public host")),
            (vec!["fd00::1"], Some("private network")),
            (vec!["64:ff9b::10.0.0.1"], Some("private network")),
            (vec![], Some("no address")),
        ] {
            let inner = Arc::new(Scripted(Mutex::new(vec![answer.clone()])));
            let guarded = GuardedResolver { inner, policy: Policy::default() };
            let found = ask(&guarded).await.err();
            let as_expected = match refused {
                None => found.is_none(),
                Some(reason) => found.as_ref().is_some_and(|found| found.contains(reason)),
            };
            assert!(as_expected, "{answer:?}: {found:?}");
        }
    }

    #[tokio::test]
    async fn a_name_that_rebinds_is_judged_at_every_lookup() {
        // The last is given first.
        let inner = Arc::new(Scripted(Mutex::new(vec![vec!["8.8.8.8"], vec!["127.0.0.1"], vec!["8.8.8.8"]])));
        let guarded = GuardedResolver { inner, policy: Policy::default() };
        assert_eq!(ask(&guarded).await, Ok(vec!["8.8.8.8".to_owned()]));
        assert!(ask(&guarded).await.unwrap_err().contains("loopback"));
        assert!(ask(&guarded).await.is_ok());
    }
}
