-- Accounts of the dashboard own keys. An account is a wallet; a key without a row here belongs to the operator alone.
create table api_key_owner (
    key_id text primary key,
    account {bytes} not null check (length(account) = 20),
    since bigint not null
);
create index api_key_owner_of on api_key_owner (account, since, key_id);

-- Calls under a key, by day and by the routes that share an allowance. A day is counted from the Unix epoch.
create table api_key_usage (
    key_id text not null,
    day bigint not null,
    family text not null,
    calls bigint not null,
    -- Calls that were turned away for being too many.
    refused bigint not null,
    primary key (key_id, day, family)
);
create index api_key_usage_age on api_key_usage (day);

-- Sessions of the dashboard. The cookie is found by its hash, so that a copy of the database opens none.
create table dashboard_session (
    token_hash {bytes} primary key check (length(token_hash) = 32),
    account {bytes} not null check (length(account) = 20),
    -- The nonce that was signed: it opens one session.
    nonce text not null unique,
    created_at bigint not null,
    expires_at bigint not null
);
create index dashboard_session_end on dashboard_session (expires_at);

-- Filters of the dashboard's list of requests that an account keeps under a name.
create table dashboard_view (
    account {bytes} not null check (length(account) = 20),
    name text not null,
    query text not null,
    created_at bigint not null,
    primary key (account, name)
);

-- Actions of operators in the dashboard: who did what to what, and why.
create table operator_action (
    action_id {identity},
    at bigint not null,
    account {bytes} not null check (length(account) = 20),
    action text not null,
    subject text not null,
    reason text not null,
    -- Null until it is done: the row is written first.
    outcome text
);
