import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'

/** Every row of a database, of a SQLite file or of a PostgreSQL, that holds one of these texts, as `<table>: <row>`. */
export async function searchDatabase(where: string, texts: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const [table, row] of where.startsWith('postgres')
    ? await ofPostgres(where)
    : ofFile(where)) {
    const text = JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? `${value}` : value))
    if (texts.some((each) => text.includes(each))) found.push(`${table}: ${text}`)
  }
  return found.sort()
}

function ofFile(path: string): [string, unknown][] {
  const database = new DatabaseSync(path, { readOnly: true, readBigInts: true })
  const all = (text: string) => database.prepare(text).all()
  const tables = all(`select name from sqlite_master where type = 'table'`)
  const rows = tables.flatMap(({ name }) =>
    all(`select * from "${name}"`).map((row): [string, unknown] => [String(name), row]),
  )
  database.close()
  return rows
}

async function ofPostgres(url: string): Promise<[string, unknown][]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `select table_name as name from information_schema.tables where table_schema = 'public'`,
    )
    const found: [string, unknown][] = []
    for (const { name } of tables)
      for (const row of (await client.query(`select * from "${name}"`)).rows)
        found.push([name, row])
    return found
  } finally {
    await client.end()
  }
}
