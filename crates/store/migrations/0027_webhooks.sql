-- Webhook endpoints of API keys. URL and custom headers are kept encrypted: both may carry secrets of the receiver.
create table webhook_endpoint (
    endpoint_id {identity},
    key_id text not null,
    name text not null,
    enabled boolean not null,
    -- The statuses it asks for, separated by spaces; empty for all.
    statuses text not null,
    sealed {bytes} not null,
    -- Why the service switched it off, where it did.
    disabled_because text,
    created_at bigint not null,
    updated_at bigint not null,
    unique (key_id, name)
);

-- The number of a request's events that were posted, which numbers the next one.
alter table request add column posted_events bigint not null default 0;

-- The public view of the request at the time of the event, for events that are posted, and its number within the request.
alter table request_event add column posted text;
alter table request_event add column ordinal bigint;

-- One posted event on its way to one endpoint: the position of its delivery.
create table webhook_delivery (
    delivery_id {identity},
    endpoint_id bigint not null,
    key_id text not null,
    -- Name of the endpoint, which may be gone when the log is read.
    endpoint text not null,
    -- Sequence of the event; null for a test.
    event bigint,
    request_id {bytes},
    ordinal bigint not null,
    status text not null,
    -- The key text that signs it: the one that was current when it happened.
    text_hash {bytes} not null,
    state text not null,
    -- Failed attempts since it became due.
    failed bigint not null default 0,
    due_at bigint not null,
    first_tried_at bigint,
    -- The process that posts it now, until when, and a number that changes with every claim.
    claimed_by text,
    claimed_until bigint not null default 0,
    claim bigint not null default 0,
    created_at bigint not null,
    -- When it last became due, by the event or by a replay.
    queued_at bigint not null,
    ended_at bigint,
    -- Why it was given up, where it was.
    ended_because text
);
create index webhook_delivery_due on webhook_delivery (endpoint_id, due_at) where state = 'due';
create index webhook_delivery_order on webhook_delivery (request_id, endpoint_id, ordinal) where state = 'due';
create index webhook_delivery_age on webhook_delivery (queued_at) where state = 'due';
create index webhook_delivery_of_key on webhook_delivery (key_id, delivery_id);
create index webhook_delivery_failed on webhook_delivery (key_id, created_at) where state = 'failed';
create index webhook_delivery_ended on webhook_delivery (ended_at) where ended_at is not null;

-- Every attempt to post: written before it is made, completed after.
create table webhook_attempt (
    attempt_id {identity},
    delivery_id bigint not null,
    started_at bigint not null,
    -- Null while it is under way, and for good where the process died meanwhile.
    duration_millis bigint,
    code bigint,
    error text,
    -- The start of the answer's body.
    body text
);
create index webhook_attempt_of on webhook_attempt (delivery_id, attempt_id);
