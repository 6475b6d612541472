import { sql } from 'kysely'
import type { Database } from '#core'

/** What became of a message. `received` and `running` are taken up again at a start. */
export type EventState =
  'received' | 'running' | 'answered' | 'refused' | 'ignored' | 'unreadable' | 'lost' | 'redacted'

/** A row of a store in which the encryption keeps its keys. Values are sealed by the encryption itself. */
export interface KeysTable {
  account: string
  database: string
  store: string
  key: string
  value: string
}

/** The oracle's account: its device and token, sealed, and how far it has read. */
export interface AccountTable {
  account: string
  sealed: string
  since: string | null
  /** For which device the account's keys are recoverable, and their key where it was made here: sealed. */
  recovery: string | null
}

/** A message that the oracle may answer. The words stand in the room alone and are read there again after a crash. */
export interface EventsTable {
  event_id: string
  room_id: string
  sender: string
  did: string | null
  thread: string | null
  session_id: string | null
  /** The turn: several messages may be one. */
  request_id: string
  state: EventState
  /** How many sends of the answer have begun. */
  sends: number
  answer_id: string | null
  at: number
}

/** A room that the oracle is in. */
export interface RoomsTable {
  room_id: string
  kind: 'direct' | 'group'
  /** Whose direct room it is. */
  account: string | null
  did: string | null
  /** Rises with `!new`: the sessions of before are over. */
  generation: number
  joined_at: number
  /** 1 where it is; null where nobody has looked yet. */
  encrypted?: number | null
}

/** A session of a room. It ends when the room has been without its person for long. */
export interface RoomSessionsTable {
  session_id: string
  room_id: string
  did: string
  /** Since when nobody of the room and the oracle meet there any more. */
  alone_since: number | null
}

/** An account that a person has linked to a DID. */
export interface LinksTable {
  account: string
  did: string
  by: 'code' | 'openid'
  at: number
}

/** A code that links an account, as a hash. */
export interface CodesTable {
  hash: string
  did: string
  expires_at: number
}

/** Wrong codes of an account. */
export interface TriesTable {
  account: string
  wrong: number
  until: number
}

/** A call that waits for a person, by the message that asks. */
export interface AsksTable {
  event_id: string
  room_id: string
  account: string
  did: string
  session_id: string
  run_id: string
  request_id: string
  words_only: number
  at: number
}

/** A notice that waits for the process which holds the account. */
export interface NoticesTable {
  key: string
  room_id: string
  did: string
  text: string
  at: number
}

/** A message that the oracle has sent for a turn. */
export interface SentTable {
  event_id: string
  room_id: string
  request_id: string
  at: number
}

/** All tables of messaging. A type and no interface, because only a type satisfies Kysely's index signature. */
export type MessagingTables = {
  messaging_keys: KeysTable
  messaging_account: AccountTable
  messaging_events: EventsTable
  messaging_rooms: RoomsTable
  messaging_links: LinksTable
  messaging_codes: CodesTable
  messaging_tries: TriesTable
  messaging_asks: AsksTable
  messaging_notices: NoticesTable
  messaging_sent: SentTable
  messaging_sessions: RoomSessionsTable
}

/** The database, with the tables of messaging. */
export const withMessagingTables = (db: Database) => db.withTables<MessagingTables>()
/** A connection or a transaction that knows the tables. */
export type MessagingDatabase = ReturnType<typeof withMessagingTables>

/** Does something in a transaction that only the process which holds the account can commit. */
export type Held = <T>(work: (trx: MessagingDatabase) => Promise<T>) => Promise<T>

const statements = [
  `create table messaging_keys (account text not null, database text not null, store text not null,
    key text not null, value text not null, primary key (account, database, store, key))`,
  'create table messaging_account (account text primary key, sealed text not null, since text)',
  `create table messaging_events (event_id text primary key, room_id text not null, sender text not null, did text,
    thread text, session_id text, request_id text not null, state text not null, sends integer not null default 0,
    answer_id text, at bigint not null)`,
  'create index messaging_events_state on messaging_events (state)',
  'create index messaging_events_turn on messaging_events (request_id)',
  'create index messaging_events_of on messaging_events (did)',
  'create index messaging_events_at on messaging_events (at)',
  `create table messaging_rooms (room_id text primary key, kind text not null, account text, did text,
    generation integer not null default 0, joined_at bigint not null)`,
  'create index messaging_rooms_of on messaging_rooms (did)',
  `create table messaging_links (account text primary key, did text not null, "by" text not null, at bigint not null)`,
  'create index messaging_links_of on messaging_links (did)',
  'create table messaging_codes (hash text primary key, did text not null, expires_at bigint not null)',
  'create table messaging_tries (account text primary key, wrong integer not null, until bigint not null)',
  `create table messaging_asks (event_id text primary key, room_id text not null, account text not null,
    did text not null, session_id text not null, run_id text not null, request_id text not null,
    words_only integer not null, at bigint not null)`,
  'create index messaging_asks_in on messaging_asks (session_id)',
]

const laterStatements = [
  `create table messaging_notices (key text primary key, room_id text not null, did text not null,
    text text not null, at bigint not null)`,
  'create index messaging_notices_at on messaging_notices (at)',
  'create index messaging_notices_of on messaging_notices (did)',
  'alter table messaging_account add column recovery text',
]

const sentStatements = [
  `create table messaging_sent (event_id text primary key, room_id text not null, request_id text not null,
    at bigint not null)`,
  'create index messaging_sent_for on messaging_sent (request_id)',
  'create index messaging_sent_at on messaging_sent (at)',
  // What was answered before this table was there can be taken back and replied to as well.
  `insert into messaging_sent select answer_id, min(room_id), min(request_id), min(at) from messaging_events
    where answer_id is not null group by answer_id`,
]

const sessionStatements = [
  `create table messaging_sessions (session_id text primary key, room_id text not null, did text not null,
    alone_since bigint)`,
  'create index messaging_sessions_in on messaging_sessions (room_id)',
  'create index messaging_sessions_of on messaging_sessions (did)',
  'create index messaging_sessions_alone on messaging_sessions (alone_since)',
  // Sessions of before, as far as their messages are still known.
  `insert into messaging_sessions select session_id, min(room_id), min(did), null from messaging_events
    where session_id is not null and did is not null group by session_id`,
]

/** The tables of messaging. A migration stays as it was first released: databases have run it. */
export const migrations = {
  '001-messaging': async (db: Database) => {
    // As text: what is written here is the same on both databases.
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
  '002-messaging-recovery': async (db: Database) => {
    for (const statement of laterStatements) await sql.raw(statement).execute(db)
  },
  '003-messaging-sent': async (db: Database) => {
    for (const statement of sentStatements) await sql.raw(statement).execute(db)
  },
  '004-messaging-encrypted': async (db: Database) => {
    await sql.raw('alter table messaging_rooms add column encrypted integer').execute(db)
  },
  '005-messaging-sessions': async (db: Database) => {
    for (const statement of sessionStatements) await sql.raw(statement).execute(db)
  },
}
