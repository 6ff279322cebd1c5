-- API keys by their public id. Their texts are in the next table.
create table api_key (
    key_id text primary key,
    name text not null,
    -- The linked wallet, whose app balance the key may spend.
    wallet {bytes},
    elevated boolean not null,
    may_force_refund boolean not null,
    -- Rates of its own such as 10/s, where it has any.
    quotes_rate text,
    requests_rate text,
    requests_v3_rate text,
    transaction_status_rate text,
    others_rate text,
    created_at bigint not null,
    rotated_at bigint,
    revoked_at bigint
);

-- The texts of keys: found by their hash, kept encrypted because webhooks are signed with them.
create table api_key_text (
    hash {bytes} primary key check (length(hash) = 32),
    key_id text not null,
    sealed {bytes} not null,
    created_at bigint not null,
    -- When it stops being good, if it was replaced.
    ends_at bigint
);
create index api_key_text_of on api_key_text (key_id, created_at);
-- A key has one text that is good for good.
create unique index api_key_text_current on api_key_text (key_id) where ends_at is null;
