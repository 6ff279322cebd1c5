-- The worth of the service's own fee of a request when it was quoted, in millionths of a dollar. Null for requests whose
-- facts were written before.
alter table request add column service_fees_usd bigint;
