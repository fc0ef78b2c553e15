-- The owner's triggers, of which some run before chash's own and some after them.

CREATE FUNCTION proof.ring_is_new() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO proof.incarnations (ring) VALUES (new.ring);
	RETURN new;
END
$$;
CREATE TRIGGER proof_incarnation AFTER INSERT ON public.chash_rings FOR EACH ROW EXECUTE FUNCTION proof.ring_is_new();

CREATE TRIGGER a_before BEFORE INSERT OR UPDATE OR DELETE ON public.chash_nodes FOR EACH ROW EXECUTE FUNCTION proof.meanwhile();
CREATE TRIGGER z_before BEFORE INSERT OR UPDATE OR DELETE ON public.chash_nodes FOR EACH ROW EXECUTE FUNCTION proof.meanwhile();
CREATE TRIGGER a_after AFTER INSERT OR UPDATE OR DELETE ON public.chash_nodes FOR EACH ROW EXECUTE FUNCTION proof.meanwhile();
CREATE TRIGGER z_after AFTER INSERT OR UPDATE OR DELETE ON public.chash_nodes FOR EACH ROW EXECUTE FUNCTION proof.meanwhile();
