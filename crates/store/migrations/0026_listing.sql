-- The facts of a request that listings filter and sort by. They stand in its quote; a task of the worker's writes them
-- here, off the way from deposit to fill. Addresses and currencies are lower-case text, dollars are millionths.
alter table request add column account text;
alter table request add column recipient text;
alter table request add column origin_chain bigint;
alter table request add column destination_chain bigint;
alter table request add column currency_in text;
alter table request add column currency_out text;
alter table request add column request_type text;
-- 1 where the user's own transaction is all there is: it is deposit and fill at once.
alter table request add column same_chain bigint;
alter table request add column key_id text;
alter table request add column referrer text;
alter table request add column amount_usd bigint;
alter table request add column app_fees_usd bigint;
-- One bit for each feature.
alter table request add column features bigint;
-- From the block of the deposit to that of the fill.
alter table request add column fill_millis bigint;
-- The changes of the request since its facts were written: 0 where they are true.
alter table request add column unlisted bigint not null default 1;
create index request_unlisted on request (request_id) where unlisted > 0;

-- A request enters these indexes with its facts, not on the way from deposit to fill.
create index request_by_age on request (created_at, request_id) where account is not null;
create index request_by_change on request (updated_at, request_id) where account is not null;
create index request_by_worth on request (amount_usd, request_id) where account is not null;
create index request_of_account on request (account, created_at, request_id) where account is not null;
create index request_of_recipient on request (recipient, created_at, request_id) where account is not null;
create index request_of_key on request (key_id, created_at, request_id) where account is not null;
create index request_in_state on request (state, created_at, request_id) where account is not null;
create index request_from on request (origin_chain, created_at, request_id) where account is not null;
create index request_to on request (destination_chain, created_at, request_id) where account is not null;
create index request_of_reason on request (fail_reason, created_at, request_id) where fail_reason is not null;

-- Few requests have a parent.
drop index request_of_parent;
create index request_of_parent on request (parent_id, created_at, request_id) where parent_id is not null;

-- The balances that a transaction changed, as JSON. Null until its receipt has been read.
alter table transaction_record add column changes text;
drop index transaction_record_without_fee;
create index transaction_record_unread on transaction_record (chain_id, record_id) where changes is null;

-- A transaction of ours is found by its hash before a block holds it.
create index payment_by_hash on payment (tx_hash) where tx_hash is not null;

-- Secrets that all processes of a deployment share and that nobody configures.
create table shared_secret (
    name text primary key,
    secret {bytes} not null check (length(secret) = 32)
);
