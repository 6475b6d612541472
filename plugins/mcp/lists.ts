import type { Kysely } from 'kysely'
import type { Database } from '#core'
import type { ServerConfig } from './config/config.ts'
import type { Listing } from './connecting/connection.ts'
import type { ListedTool } from './tools/listed.ts'

type Tables = {
  /** What a server last said of its tools. */
  mcp_tools: {
    server: string
    fingerprint: string
    tools: string
    revision: string
    about: string | null
    // PostgreSQL returns a bigint as text
    ttl_ms: number | string
    listed_at: number | string
  }
  /** The tools as the operator has accepted them. */
  mcp_accepted: {
    server: string
    fingerprint: string
    tool: string
    hash: string
    tool_json: string
  }
}

type Any = Kysely<any> // any: a migration sees tables that no type knows yet

/** The migrations of the tables. */
export const migrations = {
  '001-mcp': async (db: Any) => {
    await db.schema
      .createTable('mcp_tools')
      .addColumn('server', 'varchar(100)', (column) => column.primaryKey())
      .addColumn('fingerprint', 'varchar(64)', (column) => column.notNull())
      .addColumn('tools', 'text', (column) => column.notNull())
      .addColumn('revision', 'varchar(40)', (column) => column.notNull())
      .addColumn('about', 'text')
      .addColumn('ttl_ms', 'bigint', (column) => column.notNull())
      .addColumn('listed_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema
      .createTable('mcp_accepted')
      .addColumn('server', 'varchar(100)', (column) => column.notNull())
      .addColumn('fingerprint', 'varchar(64)', (column) => column.notNull())
      .addColumn('tool', 'varchar(200)', (column) => column.notNull())
      .addColumn('hash', 'varchar(64)', (column) => column.notNull())
      .addColumn('tool_json', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('mcp_accepted_key', ['server', 'tool'])
      .execute()
  },
}

/** A list as it was kept. */
export interface KeptListing extends Listing {
  readonly listedAt: number
}

type Server = Pick<ServerConfig, 'name' | 'fingerprint'>

/** The lists of tools in the database, so that a turn need not wait for a server, and the tools as the operator accepted them. */
export class Lists {
  readonly #tables: Kysely<Tables>
  readonly #now: () => number

  constructor(db: Database, now: () => number) {
    this.#tables = db.withTables<Tables>()
    this.#now = now
  }

  /** The list of a server; undefined where there is none, or where another server had the name. */
  async read({ name, fingerprint }: Server): Promise<KeptListing | undefined> {
    const row = await this.#tables
      .selectFrom('mcp_tools')
      .selectAll()
      .where('server', '=', name)
      .where('fingerprint', '=', fingerprint)
      .executeTakeFirst()
    if (!row) return undefined
    return {
      tools: JSON.parse(row.tools) as ListedTool[], // written by `keep`
      revision: row.revision,
      ...(row.about !== null && { about: row.about }),
      ttlMs: Number(row.ttl_ms),
      listedAt: Number(row.listed_at),
    }
  }

  /** What servers said of themselves when they were last asked, by fingerprint. */
  async about(): Promise<ReadonlyMap<string, string>> {
    const rows = await this.#tables
      .selectFrom('mcp_tools')
      .select(['fingerprint', 'about'])
      .where('about', 'is not', null)
      .limit(1_000)
      .execute()
    return new Map(rows.map(({ fingerprint, about }) => [fingerprint, about ?? '']))
  }

  async keep({ name, fingerprint }: Server, listing: Listing): Promise<KeptListing> {
    const { tools, revision, about, ttlMs } = listing
    const listedAt = this.#now()
    const row = {
      fingerprint,
      tools: JSON.stringify(tools).replaceAll('\\u0000', ''), // PostgreSQL keeps no NUL
      revision: revision.slice(0, 40),
      about: about ?? null,
      ttl_ms: ttlMs,
      listed_at: listedAt,
    }
    await this.#tables
      .insertInto('mcp_tools')
      .values({ server: name, ...row })
      .onConflict((conflict) => conflict.column('server').doUpdateSet(row))
      .execute()
    return { ...listing, listedAt }
  }

  /** The tools of a server as the operator accepted them, by name. */
  async accepted({ name, fingerprint }: Server): Promise<ReadonlyMap<string, ListedTool>> {
    const rows = await this.#tables
      .selectFrom('mcp_accepted')
      .select(['tool', 'tool_json'])
      .where('server', '=', name)
      .where('fingerprint', '=', fingerprint)
      .execute() // at most 200 tools were accepted
    return new Map(rows.map(({ tool, tool_json }) => [tool, JSON.parse(tool_json) as ListedTool]))
  }

  /** Accepts these tools in place of those before. */
  async accept({ name, fingerprint }: Server, tools: readonly ListedTool[]): Promise<void> {
    await this.#tables.transaction().execute(async (trx) => {
      await trx.deleteFrom('mcp_accepted').where('server', '=', name).execute()
      for (const tool of new Map(tools.map((each) => [each.name, each])).values())
        await trx
          .insertInto('mcp_accepted')
          .values({
            server: name,
            fingerprint,
            tool: tool.name,
            hash: tool.hash,
            tool_json: JSON.stringify(tool).replaceAll('\\u0000', ''),
          })
          .execute()
    })
  }
}
