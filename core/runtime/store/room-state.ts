import { isDeepStrictEqual } from 'node:util'
import type { Kysely, Transaction } from 'kysely'
import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import { metaOf } from '../../manifest/env.ts'
import { meant } from '../../manifest/did-you-mean.ts'
import { faultsOf, faultText } from '../../manifest/faults.ts'
import type { Database, Log, Migration, RoomName, Rooms } from '../../plugin.ts'
import { isDid } from '../base/did-form.ts'
import { fieldsIn, isRecord } from '../base/fields.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { roomNameOf, roomOfPlugin } from '../base/room-name.ts'

type Values = Record<string, unknown>

type Tables = {
  kernel_room_state: {
    room: string
    plugin: string
    key: string
    value: string
    updated_at: string
  }
}

/** Creates the table of what outlives a session: a row for each key of each plugin in each room. */
export const roomStateMigration: Migration = (db) =>
  db.schema
    .createTable('kernel_room_state')
    .addColumn('room', 'text', (column) => column.notNull())
    .addColumn('plugin', 'text', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('value', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('kernel_room_state_pk', ['room', 'plugin', 'key'])
    .execute()

/** How many rooms the migration of their names reads at once. */
const roomsPerPage = 500

/**
 * The room of a pair once had two names: one with a colon between the two DIDs, one with a space. Moves what stands in the
 * room by the colon to the room by the space; of a key that stands in both, the value that was written last stays.
 */
export const roomNamesMigration: Migration = async (db) => {
  const tables = db.withTables<Tables>()
  for (let after = ''; ;) {
    const found = await tables
      .selectFrom('kernel_room_state')
      .select('room')
      .distinct()
      .where('room', 'like', 'did:%:did:%')
      .where('room', 'not like', '% %')
      .where('room', '>', after)
      .orderBy('room')
      .limit(roomsPerPage)
      .execute()
    for (const { room } of found) await rename(tables, room)
    const last = found.at(-1)
    if (!last || found.length < roomsPerPage) return
    after = last.room
  }
}

async function rename(tables: Kysely<Tables>, room: string): Promise<void> {
  const rows = await tables
    .selectFrom('kernel_room_state')
    .selectAll()
    .where('room', '=', room)
    .execute()
  const between = room.lastIndexOf(':did:')
  const did = room.slice(0, between)
  const oracleDid = room.slice(between + 1)
  for (const row of rows)
    await tables
      .insertInto('kernel_room_state')
      .values({ ...row, room: roomNameOf({ did, oracleDid }) })
      .onConflict((conflict) =>
        conflict
          .columns(['room', 'plugin', 'key'])
          .doUpdateSet({ value: row.value, updated_at: row.updated_at })
          .where('kernel_room_state.updated_at', '<', row.updated_at),
      )
      .execute()
  await tables.deleteFrom('kernel_room_state').where('room', '=', room).execute()
}

/** The keys of a plugin that outlive a session. */
export const roomKeys = ({ definition }: PluginRecord): string[] =>
  Object.entries(definition.state ?? {}).flatMap(([key, schema]) =>
    metaOf(schema).scope === 'room' ? [key] : [],
  )

/** Every key of a plugin with the value it starts from. */
export const startingState = ({ definition }: PluginRecord): Values =>
  Object.fromEntries(
    Object.entries(definition.state ?? {}).map(([key, schema]) => [
      key,
      z.parse(schema, undefined),
    ]),
  )

/** What the values of rooms are kept with. */
interface RoomStateOptions {
  readonly db: Database
  readonly log: Log
  readonly oracleDid: string
}

/** The values of plugins that outlive a session, in the database. */
export class RoomState {
  readonly #db: Database
  readonly #tables: Kysely<Tables>
  readonly #log: Log
  readonly #oracleDid: string

  constructor({ db, log, oracleDid }: RoomStateOptions) {
    this.#db = db
    this.#tables = db.withTables<Tables>()
    this.#log = log
    this.#oracleDid = oracleDid
  }

  /** The room of a user who talks to the oracle directly, with no messaging room between them. */
  of(userDid: string): string {
    return roomNameOf({ did: userDid, oracleDid: this.#oracleDid })
  }

  /** A plugin's room-scoped keys, as its schemas parse them; one that was never set has its default. */
  async load(room: string, record: PluginRecord): Promise<Values> {
    const keys = roomKeys(record)
    if (keys.length === 0) return {}
    const rows = await this.#tables
      .selectFrom('kernel_room_state')
      .select(['key', 'value'])
      .where('room', '=', room)
      .where('plugin', '=', record.name)
      .execute()
    const stored = new Map(rows.map(({ key, value }) => [key, value]))
    return Object.fromEntries(
      keys.map((key) => [key, read(record, key, stored.get(key), this.#log)]),
    )
  }

  /** Writes what changed. Objects are merged field by field, so two sessions that change different fields both win. */
  async save(room: string, record: PluginRecord, before: Values, after: Values): Promise<void> {
    const changed = roomKeys(record).filter((key) => !isDeepStrictEqual(before[key], after[key]))
    if (changed.length === 0) return
    // Checked before anything is written: what a handler left here must be readable the next time.
    for (const key of changed) z.parse(record.definition.state![key]!, after[key])
    await this.#db.transaction().execute(async (transaction) => {
      const within = tablesOf(transaction)
      for (const key of changed) {
        const at = { room, plugin: record.name, key }
        const stored = JSON.parse(await locked(within, at))
        await write(within, at, merged(stored, before[key], after[key]))
      }
    })
  }

  /** Changes a plugin's room-scoped keys while no other writer can: `change` gets the state as it stands. */
  async update(room: string, record: PluginRecord, change: (state: Values) => void): Promise<void> {
    const keys = roomKeys(record)
    await this.#db.transaction().execute(async (transaction) => {
      const within = tablesOf(transaction)
      const stored: Record<string, string> = {}
      // In the order of `save`, so that two writers never wait for each other.
      for (const key of keys) stored[key] = await locked(within, { room, plugin: record.name, key })
      const before: Values = {}
      for (const key of keys) before[key] = read(record, key, stored[key], this.#log)
      const after = { ...startingState(record), ...structuredClone(before) }
      changeAtOnce(record, change, after)
      demandRoomKeys(record, keys, after)
      for (const key of keys) {
        if (isDeepStrictEqual(before[key], after[key])) continue
        demandFit(record, key, after[key])
        const value = merged(JSON.parse(stored[key]!), before[key], after[key])
        await write(within, { room, plugin: record.name, key }, value)
      }
    })
  }

  /** What a plugin reaches of its rooms outside a turn. */
  ofPlugin(record: PluginRecord): Omit<Rooms, 'changed'> {
    return {
      read: async (room) => ({
        ...startingState(record),
        ...(await this.load(this.#named(room, record), record)),
      }),
      update: async (room, change) => this.update(this.#named(room, record), record, change),
    }
  }

  #named(room: RoomName, { name }: PluginRecord): string {
    const { user, room: own }: Partial<RoomName> = Object(room)
    if (user !== undefined && own === undefined) return this.of(didOf(name, user))
    if (user === undefined) return roomOfPlugin(name, own)
    throw new RuntimeError('INPUT_INVALID', `${name} named both a user and a room.`, {
      hint: 'Write { user } or { room }.',
    })
  }
}

/** Without this check all users whom a plugin names wrongly would share one room. */
function didOf(plugin: string, user: unknown): string {
  const { did } = fieldsIn(user)
  if (isDid(did)) return did
  throw new RuntimeError('INPUT_INVALID', `${plugin} named a user without a DID.`, {
    hint: 'Pass a user of ctx, or { did }.',
  })
}

const tablesOf = (transaction: Transaction<{}>) => transaction.withTables<Tables>()
/** Named by the function that makes it: to compare it with `Kysely<Tables>`, the compiler would need a tenth of a large app's work. */
type Within = ReturnType<typeof tablesOf>

/** The key of a row. */
interface At {
  readonly room: string
  readonly plugin: string
  readonly key: string
}

/** Takes the lock of a row, so that a second writer waits for the first one, and reads the JSON of its value. */
async function locked(within: Within, at: At): Promise<string> {
  const { room, plugin, key } = at
  const updated_at = new Date().toISOString()
  await within
    .insertInto('kernel_room_state')
    .values({ ...at, value: 'null', updated_at })
    .onConflict((conflict) =>
      conflict.columns(['room', 'plugin', 'key']).doUpdateSet({ updated_at }),
    )
    .execute()
  const row = await within
    .selectFrom('kernel_room_state')
    .select('value')
    .where('room', '=', room)
    .where('plugin', '=', plugin)
    .where('key', '=', key)
    .executeTakeFirstOrThrow()
  return row.value
}

async function write(within: Within, { room, plugin, key }: At, value: unknown) {
  await within
    .updateTable('kernel_room_state')
    .set({ value: JSON.stringify(value ?? null) })
    .where('room', '=', room)
    .where('plugin', '=', plugin)
    .where('key', '=', key)
    .execute()
}

/** Throws for a change that no room keeps: of a key that no schema declares, or that belongs to a session. */
function demandRoomKeys(record: PluginRecord, keys: readonly string[], after: Values): void {
  const start = startingState(record)
  for (const key of Object.keys(after)) {
    if (keys.includes(key) || isDeepStrictEqual(after[key], start[key])) continue
    const isDeclared = Object.hasOwn(start, key)
    throw new RuntimeError('INPUT_INVALID', `${record.name} keeps no "${key}" in rooms.`, {
      hint: isDeclared
        ? 'The key belongs to a session: give its schema .meta({ scope: "room" }).'
        : meant(key, keys) || 'Declare the key in "state", with .meta({ scope: "room" }).',
    })
  }
}

/** Throws for a value that the next reader could not read. */
function demandFit({ name, definition }: PluginRecord, key: string, value: unknown): void {
  const parsed = z.safeParse(definition.state![key]!, value)
  if (parsed.success) return
  const faults = faultsOf(parsed.error)
  throw new RuntimeError(
    'INPUT_INVALID',
    `What ${name} keeps as "${key}" does not fit its schema: ${faultText(faults)}.`,
    { details: { faults } },
  )
}

/** Calls `change`, which has to be done when it returns: while it runs, other writers wait for the rows. */
function changeAtOnce({ name }: PluginRecord, change: (state: Values) => unknown, state: Values) {
  if (typeof change !== 'function')
    throw new RuntimeError('INPUT_INVALID', `${name} gave rooms.update no function.`, {
      hint: 'Write rooms.update(room, (state) => { … }).',
    })
  const answer = change(state)
  if (!(answer instanceof Promise)) return
  answer.catch(() => undefined)
  throw new TypeError(`The function that ${name} gave to rooms.update is async, and may not be.`)
}

/** A stored value as its schema reads it today. In place of a value that no longer fits comes the default, and the log says so. */
function read(
  { name, definition }: PluginRecord,
  key: string,
  text: string | undefined,
  log: Log,
): unknown {
  const schema = definition.state![key]!
  const fresh = () => z.parse(schema, undefined)
  if (text === undefined) return fresh()
  const parsed = z.safeParse(schema, JSON.parse(text) ?? undefined)
  if (parsed.success) return parsed.data
  log.warn({ plugin: name, key }, 'a stored value no longer fits its schema and is left out')
  return fresh()
}

/** The stored value with the fields that one writer changed; the other fields keep what is stored. */
function merged(stored: unknown, before: unknown, after: unknown): unknown {
  if (!isRecord(stored) || !isRecord(before) || !isRecord(after)) return after
  const result: Values = { ...stored }
  for (const field of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (isDeepStrictEqual(before[field], after[field])) continue
    if (after[field] === undefined) delete result[field]
    else result[field] = after[field]
  }
  return result
}
