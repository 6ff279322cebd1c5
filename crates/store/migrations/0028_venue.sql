-- Transactions of the perpetuals venue: the 32 bytes that other tables know them by, and the venue's own hash as it writes
-- it, 80 hexadecimal digits.
create table venue_tx (
    tx_hash {bytes} primary key,
    digest text not null
);
