import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { metaOf } from '../../manifest/env.ts'
import type { Database, Log, Migration } from '../../plugin.ts'
import type { PluginRecord } from '../base/plugin-record.ts'

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

/** What outlives a session: a row for each key of each plugin in each room. */
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

/** The room of a user who talks to an oracle directly, with no messaging room between them. */
export const roomOf = (userDid: string, oracleDid: string): string => `${userDid} ${oracleDid}`

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

/** Reads and writes the values of plugins that outlive a session. */
export interface RoomState {
  /** A plugin's room-scoped keys, as its schemas parse them; one that was never set has its default. */
  load(room: string, record: PluginRecord): Promise<Values>
  /** Writes what changed. Objects are merged field by field, so two sessions that change different fields both win. */
  save(room: string, record: PluginRecord, before: Values, after: Values): Promise<void>
}

/** The values of plugins that outlive a session, in the database. */
export function createRoomState({ db, log }: { db: Database; log: Log }): RoomState {
  const tables = db.withTables<Tables>()

  return {
    async load(room, record) {
      const keys = roomKeys(record)
      if (keys.length === 0) return {}
      const rows = await tables
        .selectFrom('kernel_room_state')
        .select(['key', 'value'])
        .where('room', '=', room)
        .where('plugin', '=', record.name)
        .execute()
      const stored = new Map(rows.map(({ key, value }) => [key, value]))
      return Object.fromEntries(keys.map((key) => [key, read(record, key, stored.get(key), log)]))
    },

    async save(room, record, before, after) {
      const changed = roomKeys(record).filter((key) => !isDeepStrictEqual(before[key], after[key]))
      if (changed.length === 0) return
      // Checked before anything is written: what a handler left here must be readable the next time.
      for (const key of changed) z.parse(record.definition.state![key]!, after[key])
      await db.transaction().execute(async (transaction) => {
        const within = transaction.withTables<Tables>()
        for (const key of changed) {
          const at = { room, plugin: record.name, key }
          await within
            .insertInto('kernel_room_state')
            .values({ ...at, value: 'null', updated_at: new Date().toISOString() })
            .onConflict((conflict) =>
              // Takes the row's lock, so that a second writer merges into what the first one wrote.
              conflict
                .columns(['room', 'plugin', 'key'])
                .doUpdateSet({ updated_at: new Date().toISOString() }),
            )
            .execute()
          const row = await within
            .selectFrom('kernel_room_state')
            .select('value')
            .where('room', '=', room)
            .where('plugin', '=', record.name)
            .where('key', '=', key)
            .executeTakeFirstOrThrow()
          const value = JSON.stringify(
            merged(JSON.parse(row.value), before[key], after[key]) ?? null,
          )
          await within
            .updateTable('kernel_room_state')
            .set({ value })
            .where('room', '=', room)
            .where('plugin', '=', record.name)
            .where('key', '=', key)
            .execute()
        }
      })
    },
  }
}

/** A stored value as its schema reads it today. One that no longer fits starts afresh, and the log says so. */
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

/** The stored value with the fields that one writer changed; the others keep what is stored. */
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

const isRecord = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
