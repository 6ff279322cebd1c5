-- A person asked for a wallet to be filled up with native currency from the treasury. The worker takes the row away when
-- it has paid, or when there is nothing to pay; until then the reason says what that waits for.
create table top_up (
    chain_id bigint not null,
    wallet {bytes} not null,
    reason text,
    created_at bigint not null,
    primary key (chain_id, wallet)
);
