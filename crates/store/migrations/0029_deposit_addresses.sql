-- Addresses that were given out to be paid at without a wallet that knows us.
create table deposit_address (
    -- The same on every chain.
    address {bytes} primary key,
    -- The request that it was given out for, and its order.
    request_id {bytes} not null unique,
    order_id {bytes} not null,
    kind text not null check (kind in ('strict', 'open')),
    -- The address is derived from one of these: from a route, or from its order and this depositor.
    route_key {bytes},
    depositor {bytes},
    chain_id bigint not null,
    -- 20 zero bytes are the native currency.
    currency {bytes} not null,
    native bigint not null check (native in (0, 1)),
    -- Its native balance is looked at until then.
    watched_until bigint not null,
    -- The newest request that was made of money here while the first one was not paid.
    superseded_by {bytes},
    reindexed_at bigint,
    created_at bigint not null,
    check ((route_key is null) <> (depositor is null))
);
create index deposit_address_watched on deposit_address (chain_id, address) where native = 1;

-- Sweeps of an address into the depository. Each is a payment of one of our lanes.
create table deposit_sweep (
    sweep_id {bytes} primary key,
    chain_id bigint not null,
    address {bytes} not null,
    currency {bytes} not null,
    -- The order that the deposit names, and its request: the parent if the deposit is to go back.
    order_id {bytes} not null,
    request_id {bytes} not null,
    -- Why the deposit goes back. Null if it is to pay for the order.
    reason text,
    state text not null check (state in ('live', 'done', 'void')),
    created_at bigint not null
);
create unique index deposit_sweep_live on deposit_sweep (chain_id, address, currency) where state = 'live';
create index deposit_sweep_of_place on deposit_sweep (address, chain_id, currency);
create index deposit_sweep_of_order on deposit_sweep (order_id);
create index deposit_sweep_of_request on deposit_sweep (request_id);

-- Transfers to a deposit address. They say when to sweep, and are worth nothing by themselves.
create table deposit_arrival (
    arrival_id {identity},
    chain_id bigint not null,
    address {bytes} not null,
    currency {bytes} not null,
    amount text not null,
    -- Null where only the balance tells that something has arrived.
    tx_hash {bytes},
    -- -1 for native currency, which leaves no log.
    log_index bigint not null,
    sender {bytes},
    -- 1 if the sender moved its own money, in its own transaction.
    direct bigint not null check (direct in (0, 1)),
    block_number bigint not null,
    block_hash {bytes} not null,
    -- The block at which it has its confirmations.
    ripe_at bigint not null,
    -- Null while it is at the address.
    sweep_id {bytes},
    -- 1 if it has left the address without a sweep of ours: a strict address is swept by anybody.
    gone bigint not null default 0 check (gone in (0, 1)),
    -- Not looked at before then, in milliseconds since the Unix epoch.
    retry_at bigint not null default 0,
    created_at bigint not null
);
create unique index deposit_arrival_once on deposit_arrival (chain_id, tx_hash, log_index, address)
    where tx_hash is not null;
create index deposit_arrival_at on deposit_arrival (address, chain_id);
create index deposit_arrival_by_hash on deposit_arrival (tx_hash) where tx_hash is not null;
create index deposit_arrival_of_sweep on deposit_arrival (sweep_id) where sweep_id is not null;
create index deposit_arrival_waiting on deposit_arrival (chain_id, retry_at) where sweep_id is null and gone = 0;
create index deposit_arrival_in_block on deposit_arrival (chain_id, block_number) where sweep_id is null and gone = 0;

-- The block up to which a chain was searched for arrivals. No row: no address was given out there.
create table arrival_cursor (
    chain_id bigint primary key,
    number bigint not null,
    hash {bytes} not null
);

-- The deposit address of a request: its own, or the one that its money came through.
alter table request add column deposit_address {bytes};
create index request_of_deposit_address on request (deposit_address, created_at, request_id)
    where deposit_address is not null;
