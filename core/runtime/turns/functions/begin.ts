import { type Kysely, PostgresAdapter, sql } from 'kysely'
import type { Migration } from '../../../plugin.ts'

/** The error with which the function leaves a turn that is one too many for the day: nothing of the turn is recorded. */
export const tooManyToday = 'OR001'

/** The error of a turn whose caller's token is revoked: nothing of the turn is recorded. */
export const tokenRevoked = 'OR002'

/** What one version of the function has beside what they all have. */
interface Version {
  readonly name: string
  readonly parameters: string
  /** What comes before anything is read or changed. */
  readonly first: string
}

/**
 * Records a turn that begins as nearly all turns do: in a session of the user in which nothing is under way, waits or was stopped
 * before. It does what `beginRun` does, in the same order and under the same locks, in one statement: each query within
 * it sees what was committed before the query began. Where anything is unusual it changes nothing and returns no row, and `beginRun`
 * looks anew. A function stays as it was released, because older servers call it: another one has another number.
 */
const beginRunFunction = ({ name, parameters, first }: Version) => `
create function ${name}(
  p_session text, p_did text, p_request text, p_run text, p_title text, p_model text, p_beside text, p_words text,
  p_owner text, p_lease_ms bigint, p_now bigint, p_consumers text[],
  p_at_once integer, p_per_day bigint, p_address text, p_per_day_there bigint${parameters}
) returns table (o_turn integer, o_room text, o_redactions integer, o_previous text, o_checkpoint text,
  o_lease_until bigint, o_now bigint)
language plpgsql as $function$
declare
  v_model text;
  v_shared integer;
  v_counted bigint;
begin${first}
  select s.turns + 1, s.room, s.redactions, s.model, s.shared
    into o_turn, o_room, o_redactions, v_model, v_shared
    from kernel_sessions s where s.id = p_session and s.did = p_did for update;
  -- What the session adds to the request is for those who read the request.
  if not found or v_shared <> 0 or (v_model is not null and p_model is null) then return; end if;
  -- The turns of one user begin one after the other: each sees those before it, wherever they are carried.
  perform pg_advisory_xact_lock(7021, hashtext(p_did));
  if exists (select 1 from kernel_runs r where r.session_id = p_session and r.request_id = p_request)
    or exists (select 1 from kernel_runs r
      where r.did = p_did and r.request_id = p_request and r.namesake = 0)
    or exists (select 1 from kernel_waiting_turns w where w.did = p_did and w.request_id = p_request)
    or exists (select 1 from kernel_waiting_turns w where w.session_id = p_session)
    or exists (select 1 from kernel_runs r where r.session_id = p_session
      and r.status in ('queued', 'running', 'waiting'))
    or exists (select 1 from kernel_early_stops e
      where e.session_id = p_session and e.request_id = p_request)
    or (select count(distinct r.session_id) from kernel_runs r where r.did = p_did
      and r.status in ('queued', 'running') and r.stop is null and r.continues is null
      and r.session_id <> p_session) >= p_at_once
  then return; end if;

  select r.id into o_previous from kernel_runs r
    where r.session_id = p_session and r.turn < o_turn order by r.turn desc limit 1;
  select either.checkpoint into o_checkpoint from (
    select * from (select r.turn, r.checkpoint, 0 as moved from kernel_runs r
      where r.session_id = p_session and r.turn < o_turn and r.checkpoint is not null
      order by r.turn desc limit 1) as ended
    union all
    select * from (select h.turn, h.checkpoint, 1 as moved from kernel_heads h
      where h.session_id = p_session and h.turn < o_turn order by h.turn desc limit 1) as heads
  ) as either order by either.turn desc, either.moved desc limit 1;

  o_now := p_now;
  o_lease_until := (extract(epoch from clock_timestamp()) * 1000)::bigint + p_lease_ms;
  update kernel_sessions s set turns = o_turn, updated_at = p_now, title = coalesce(s.title, p_title),
      model = case when p_model is null then s.model else nullif(p_model, 'default') end
    where s.id = p_session;
  insert into kernel_runs (id, session_id, did, turn, root_id, root_turn, request_id, status, steps,
      owner, epoch, attempts, version, last_seq, kept_seq, kept_length, purged, lease_until, created_at)
    values (p_run, p_session, p_did, o_turn, p_run, o_turn, p_request, 'running', 1,
      p_owner, 1, 0, 0, 0, 0, 0, 0, o_lease_until, p_now);
  if p_beside is not null then
    insert into kernel_run_requests (run_id, request) values (p_run, p_beside);
  end if;
  insert into kernel_steps (session_id, position, run_id, root_id, step, kind, body, created_at)
    values (p_session, o_turn::bigint * 1048576, p_run, p_run, 0, 'user', p_words, p_now);
  insert into kernel_unsettled (session_id, root_id, consumer, created_at)
    select p_session, p_run, c.name, p_now from unnest(p_consumers) as c(name);

  -- The counts come last, because users who share an address wait here for each other until the statement ends.
  if p_per_day is not null then
    insert into kernel_turn_counts as t (who, day, turns) values (p_did, p_now / 86400000, 1)
      on conflict (who, day) do update set turns = t.turns + 1 returning t.turns into v_counted;
    if v_counted > p_per_day then
      raise exception 'A turn too many for the day' using errcode = '${tooManyToday}';
    end if;
    if p_address is not null then
      insert into kernel_turn_counts as t (who, day, turns) values (p_address, p_now / 86400000, 1)
        on conflict (who, day) do update set turns = t.turns + 1 returning t.turns into v_counted;
      if v_counted > p_per_day_there then
        raise exception 'A turn too many for the day' using errcode = '${tooManyToday}';
      end if;
    end if;
  end if;
  return next;
end $function$`

const first: Version = { name: 'kernel_begin_run_1', parameters: '', first: '' }

/** Also looks whether a token of the caller was revoked: then nothing of the turn is recorded. */
const second: Version = {
  name: 'kernel_begin_run_2',
  parameters: ', p_cids text[]',
  first: `
  if cardinality(p_cids) > 0 then
    if exists (select 1 from kernel_revocations r where r.cid = any (p_cids)) then
      raise exception 'The token is revoked' using errcode = '${tokenRevoked}';
    end if;
  end if;`,
}

/** Adds a version of the function on PostgreSQL, for the migration owner `kernel-runs`. SQLite has no way to a server to spare. */
const adding =
  (version: Version): Migration =>
  async (db) => {
    if (isPostgres(db)) await sql.raw(beginRunFunction(version)).execute(db)
  }

/** The versions of the function, each as a migration. */
export const beginFunctionMigrations = { first: adding(first), second: adding(second) }

const isPostgres = (db: Pick<Kysely<unknown>, 'getExecutor'>): boolean =>
  db.getExecutor().adapter instanceof PostgresAdapter
