-- What integrators have with us, in millionths of a USDC. A limit is judged by the statement that takes from it. The
-- house's own accounts have no row: they are the sum of the entries that name them, so no writer waits for another there.
create table ledger_account (
    wallet {bytes} primary key,
    balance bigint not null check (balance between -1000000000000000000 and 1000000000000000000),
    -- In holds for fast fills.
    held bigint not null check (held >= 0),
    -- In reservations for sponsorship and claims under way.
    reserved bigint not null check (reserved >= 0)
);

-- Every movement, written once and never changed, under the name of its cause. Its amount leaves one account and reaches
-- the other. A hold that opens, changes or ends moves nothing: it changes only what is set aside.
create table ledger_entry (
    sequence {identity},
    entry_id text not null unique,
    context text not null,
    debit text not null,
    credit text not null,
    amount bigint not null check (amount >= 0),
    -- The wallet among the two, and what the entry changes of what it has set aside.
    wallet {bytes} not null,
    held bigint not null,
    reserved bigint not null,
    balance_after bigint not null,
    request_id {bytes},
    at bigint not null,
    check (debit <> credit)
);
create index ledger_entry_of on ledger_entry (wallet, sequence);

-- Money set aside: opened once, ended once.
create table ledger_hold (
    hold_id text primary key,
    kind text not null,
    subject {bytes} not null,
    attempt bigint not null,
    wallet {bytes} not null,
    amount bigint not null check (amount >= 0),
    -- How often its amount was changed.
    changes bigint not null default 0,
    state text not null check (state in ('open', 'posted', 'voided')),
    request_id {bytes},
    opened_at bigint not null,
    ended_at bigint
);
create unique index ledger_hold_open on ledger_hold (kind, subject) where state = 'open';
