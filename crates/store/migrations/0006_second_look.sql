-- The last final block of each chain whose logs were read a second time.
create table second_look (
    chain_id bigint primary key,
    number bigint not null
);
