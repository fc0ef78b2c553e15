-- The main job: from nothing to a routed key, and what a new node takes.
SELECT chash_create_ring();
SELECT chash_add_node('a'), chash_add_node('b'), chash_add_node('c', weight => 2.5, zone => 'z2');
SELECT chash_node('customer-17'), chash_node(17), chash_node('c0ffee00-0000-4000-8000-000000000001'::uuid);
SELECT chash_replicas('customer-17', 2);
SELECT * FROM chash_route('customer-17');
SELECT from_node, to_node, ranges, round(share::numeric, 6) AS share,
       round(from_before::numeric, 6) AS from_before, round(from_after::numeric, 6) AS from_after,
       round(to_before::numeric, 6) AS to_before, round(to_after::numeric, 6) AS to_after
  FROM chash_rebalance_summary(changes => '{"d": {}}');
CREATE TEMP TABLE plan AS SELECT * FROM chash_rebalance_plan(changes => '{"d": {}}');
SELECT count(*), count(DISTINCT to_node), min(to_node), round(sum(share)::numeric, 6) FROM plan;
CREATE TEMP TABLE before AS SELECT k, chash_node(k) AS node FROM generate_series(1, 20000) k;
SELECT chash_add_node('d');
-- Exactly the keys in the plan's ranges have moved, each as the plan says.
SELECT count(*) AS moved,
       count(*) FILTER (WHERE p.lo IS NULL) AS not_in_plan,
       count(*) FILTER (WHERE p.from_node <> b.node OR p.to_node <> chash_node(b.k)) AS otherwise
  FROM before b LEFT JOIN plan p ON chash_hash(b.k) BETWEEN p.lo AND p.hi
 WHERE b.node <> chash_node(b.k);
SELECT count(*) AS planned_but_not_moved
  FROM before b JOIN plan p ON chash_hash(b.k) BETWEEN p.lo AND p.hi
 WHERE b.node = chash_node(b.k);
SELECT lo, hi, from_node, to_node FROM plan
EXCEPT SELECT lo, hi, from_node, to_node FROM chash_epoch_diff();
SELECT node, weight, zone, points, round(share::numeric, 4) AS share, round(expected::numeric, 4) AS expected, round(ratio::numeric, 4) AS ratio, bar
  FROM chash_balance();
SELECT chash_drop_ring();
