//! `causeway pause` and `causeway resume`: one short write, which every running process reads within seconds. It needs
//! no service: a chain can be paused before the service is started.

use anyhow::{Context, Result, ensure};
use store::chain_pauses::{self, Decision};
use store::{StoreError, Tx};

use super::keys;
use crate::assemble;
use crate::cli::PauseArgs;
use crate::config::Config;
use crate::env::system_env;

const MAX_REASON_LEN: usize = 500;
const MAX_NAME_LEN: usize = 100;

pub(crate) async fn run(args: &PauseArgs, paused: bool) -> Result<()> {
    let fits = |text: &str, most: usize| (1..=most).contains(&text.trim().chars().count());
    ensure!(fits(&args.reason, MAX_REASON_LEN), "--reason: must be 1 to {MAX_REASON_LEN} characters");
    ensure!(fits(&args.by, MAX_NAME_LEN), "--by: must be 1 to {MAX_NAME_LEN} characters");
    let config = Config::load(&args.config.config)?;
    let catalog = assemble::catalog(&config)?;
    let is_meant = |chain: &&domain::catalog::Chain| chain.name == args.chain || chain.id.to_string() == args.chain;
    let names = || catalog.chains().iter().map(|chain| chain.name.as_str()).collect::<Vec<_>>().join(", ");
    let chain = catalog.chains().iter().find(is_meant);
    let chain = chain.with_context(|| format!("no chain {}; there are: {}", args.chain, names()))?;
    let (id, at) = (chain.id, (system_env().clock)());
    let decision = Decision { at, by: args.by.trim().to_owned(), reason: args.reason.trim().to_owned() };
    let unit = move |tx: &mut Tx<'_>| {
        let changed = match paused {
            true => chain_pauses::pause(tx, id, &decision)?,
            false => chain_pauses::resume(tx, id, &decision)?,
        };
        Ok::<_, StoreError>((changed, chain_pauses::of(tx, id)?))
    };
    let store = keys::open(&config)?;
    let done = store.write(unit).await;
    store.close().await;
    match done? {
        (true, Some(pause)) => println!("{} is {pause}", chain.name),
        (true, None) => println!("{} is not paused any more", chain.name),
        (false, Some(pause)) => println!("{} was {pause}", chain.name),
        (false, None) => println!("{} was not paused", chain.name),
    }
    Ok(())
}
