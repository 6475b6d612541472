import { type RawBuilder, sql } from 'kysely'
import type { Database, UserDataItem } from '../../plugin.ts'
import { roomNameOf } from '../base/room-name.ts'
import { isWaiting } from '../turns/indexes/open-runs.ts'

/** Whose data is exported, and where from. */
export interface ExportOf {
  readonly db: Database
  readonly did: string
  readonly oracleDid: string
  /** True: only the kinds matter, so the bytes of files are left out. */
  readonly isCounting?: boolean
}

type Row = Readonly<Record<string, unknown>>

/** One kind of what the kernel keeps: rows with a text `key` that is unique among them, and how a row is told. */
interface Kind {
  readonly kind: string
  readonly select: (of: ExportOf) => RawBuilder<unknown>
  readonly told: (row: Row) => Row
}

/** Rows of one query. Those with long texts come in small pages. */
const rowsPerPage = 200

const time = (value: unknown) =>
  value === null || value === undefined ? undefined : new Date(Number(value)).toISOString()
const json = (value: unknown): unknown => {
  try {
    return JSON.parse(String(value))
  } catch {
    return value
  }
}

const own = ({ did }: ExportOf) => sql`(select id from kernel_sessions where did = ${did})`

const kinds: readonly Kind[] = [
  {
    kind: 'session',
    select: ({ did }) => sql`select id as key, id, title, room, model, plugin, created_at,
      updated_at from kernel_sessions where did = ${did}`,
    told: ({ id, title, room, model, plugin, created_at, updated_at }) => ({
      ...{ id, title, room, model, madeBy: plugin },
      createdAt: time(created_at),
      updatedAt: time(updated_at),
    }),
  },
  {
    kind: 'message',
    select: (
      of,
    ) => sql`select session_id || ' ' || cast(position + 1000000000000000 as text) as key,
      session_id, run_id, kind as role, body, created_at from kernel_steps
      where session_id in ${own(of)}`,
    told: ({ session_id, run_id, role, body, created_at }) => ({
      sessionId: session_id,
      runId: run_id,
      role,
      at: time(created_at),
      content: json(body),
    }),
  },
  {
    kind: 'run',
    select: ({
      did,
    }) => sql`select id as key, id, session_id, status, cause, request_id, created_at,
      ended_at from kernel_runs where did = ${did}`,
    told: ({ id, session_id, status, cause, request_id, created_at, ended_at }) => ({
      ...{ id, status, cause },
      sessionId: session_id,
      requestId: request_id,
      createdAt: time(created_at),
      endedAt: time(ended_at),
    }),
  },
  {
    kind: 'approval',
    select: ({ did }) => sql`select id as key, id, session_id, created_at from kernel_runs
      where did = ${did} and ${isWaiting}`,
    told: ({ id, session_id, created_at }) => ({
      runId: id,
      sessionId: session_id,
      since: time(created_at),
    }),
  },
  {
    kind: 'result',
    select: (of) => sql`select session_id || ' ' || handle as key, session_id, handle, body
      from kernel_results where session_id in ${own(of)}`,
    told: ({ session_id, handle, body }) => ({
      sessionId: session_id,
      handle,
      content: json(body),
    }),
  },
  {
    kind: 'waiting-turn',
    select: ({ did }) => sql`select id as key, id, session_id, request, created_at
      from kernel_waiting_turns where did = ${did}`,
    told: ({ id, session_id, request, created_at }) => ({
      id,
      sessionId: session_id,
      request: json(request),
      createdAt: time(created_at),
    }),
  },
  {
    kind: 'room-state',
    // A room that several users share is told to each of them: it is what their conversations there go by.
    select: ({ did, oracleDid }) => sql`select room || ' ' || plugin || ' ' || key as key, room,
      plugin, key as name, value from kernel_room_state
      where room = ${roomNameOf({ did, oracleDid })}
        or room in (select room from kernel_sessions where did = ${did} and room is not null)`,
    told: ({ room, plugin, name, value }) => ({ room, madeBy: plugin, name, value: json(value) }),
  },
  {
    kind: 'notice',
    select: ({ did }) => sql`select cast(id + 1000000000000000 as text) as key, id,
      kind as about, plugin, title, body, session_id, created_at, seen_at
      from kernel_notices where did = ${did}`,
    told: ({ id, about, plugin, title, body, session_id, created_at, seen_at }) => ({
      ...{ id, about, madeBy: plugin, title },
      text: body,
      sessionId: session_id,
      createdAt: time(created_at),
      seenAt: time(seen_at),
    }),
  },
  {
    kind: 'muted-plugin',
    select: ({ did }) =>
      sql`select plugin as key, plugin from kernel_notice_mutes where did = ${did}`,
    told: ({ plugin }) => ({ muted: plugin }),
  },
  {
    kind: 'job',
    select: ({ did }) => sql`select id as key, id, plugin, name, state, data, created_at, ended_at
      from kernel_jobs where did = ${did}`,
    told: ({ id, plugin, name, state, data, created_at, ended_at }) => ({
      ...{ id, madeBy: plugin, name, state },
      data: json(data),
      createdAt: time(created_at),
      endedAt: time(ended_at),
    }),
  },
  {
    kind: 'delegation',
    // The token itself stays here: whoever has the export could call with it.
    select: ({ did }) => sql`select oracle_did as key, oracle_did, expires_at
      from kernel_delegations where user_did = ${did}`,
    told: ({ oracle_did, expires_at }) => ({
      audience: oracle_did,
      expiresAt: time(Number(expires_at) * 1000),
    }),
  },
  {
    kind: 'grant',
    select: ({ did }) => sql`select id as key, id, capabilities, created_at, expires_at, revoked_at
      from kernel_grants where did = ${did}`,
    told: ({ id, capabilities, created_at, expires_at, revoked_at }) => ({
      id,
      capabilities: json(capabilities),
      createdAt: time(created_at),
      expiresAt: time(expires_at),
      revokedAt: time(revoked_at),
    }),
  },
  {
    kind: 'key',
    // Neither the key nor its hash: the list says what there is.
    select: ({ did }) => sql`select id as key, id, name, can, created_at, expires_at, last_used_at
      from kernel_keys where did = ${did}`,
    told: ({ id, name, can, created_at, expires_at, last_used_at }) => ({
      ...{ id, name },
      can: json(can),
      createdAt: time(created_at),
      expiresAt: time(expires_at),
      lastUsedAt: time(last_used_at),
    }),
  },
  {
    kind: 'turn-count',
    select: ({ did }) => sql`select cast(day + 1000000 as text) as key, day, turns
      from kernel_turn_counts where who = ${did}`,
    told: ({ day, turns }) => ({ day: time(Number(day) * 86_400_000)?.slice(0, 10), turns }),
  },
  {
    kind: 'audit-line',
    select: ({ did }) => sql`select cast(id + 1000000000000000 as text) as key, at, route, tool,
      task, what, outcome from kernel_audit where who = ${did}`,
    told: ({ at, route, tool, task, what, outcome }) => ({
      ...{ route, tool, task, outcome },
      what: json(what),
      at: time(at),
    }),
  },
]

/** Everything that the kernel keeps of a user, a page at a time. */
export async function* kernelExport(of: ExportOf): AsyncGenerator<UserDataItem> {
  for (const { kind, select, told } of kinds)
    for (let last = ''; ;) {
      const { rows } = await sql<Row>`select * from (${select(of)}) as one
        where key > ${last} order by key limit ${sql.lit(rowsPerPage)}`.execute(of.db)
      for (const row of rows) yield { ...told(row), kind }
      last = String(rows.at(-1)?.key ?? '')
      if (rows.length < rowsPerPage) break
    }
  yield* filesOf(of)
}

/** Files one by one, because each may be large. */
async function* filesOf({ db, did, isCounting }: ExportOf): AsyncGenerator<UserDataItem> {
  for (let last = ''; ;) {
    const { rows } = await sql<Row>`select id, name, media_type, bytes, sha256
      ${isCounting ? sql`` : sql`, body`} from kernel_files where did = ${did} and id > ${last}
      order by id limit 1`.execute(db)
    const [row] = rows
    if (!row) return
    const { id, name, media_type, bytes, sha256, body } = row
    const content = body instanceof Uint8Array && Buffer.from(body).toString('base64')
    yield {
      ...{ kind: 'file', id, name, mediaType: media_type, bytes, sha256 },
      ...(content !== false && { content }),
    }
    last = String(id)
  }
}
