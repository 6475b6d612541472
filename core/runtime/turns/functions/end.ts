import type { EndRows } from '../run.ts'

/** The rows of one run. */
export interface RowsOfRun {
  readonly runId: string
  readonly inserts: readonly EndRows[]
}

/** The columns of rows that are inserted together. */
export const columnsOf = ({ rows }: Pick<EndRows, 'rows'>): string[] => Object.keys(rows[0] ?? {})

/** The SQL that inserts rows, which `source` names. */
export function insertion(of: EndRows, source: string): string {
  const { table, key, replaces } = of
  const columns = columnsOf(of)
  const rest = columns.filter((column) => !key.includes(column))
  const update = `do update set ${rest.map((column) => `${column} = excluded.${column}`).join()}`
  const action = {
    always: update,
    never: 'do nothing',
    'below zero': `${update} where excluded.position < 0`,
  }[replaces]
  return `insert into ${table} (${columns.join()}) ${source} on conflict (${key.join()}) ${action}`
}

/**
 * The parts of PostgreSQL's statement that insert what is kept with the ends of runs, each for the runs alone that the part
 * `fence` of the statement has written; `from` is the number of the first parameter. The texts differ only in how many rows there are.
 */
export function partsOfEnds(all: readonly RowsOfRun[], from: number) {
  const values: unknown[] = []
  const place = (value: unknown, type: string) => `$${from + values.push(value) - 1}::${type}`
  const parts = all.flatMap(({ runId, inserts }, run) => {
    if (inserts.length === 0) return []
    const ofRun = place(runId, 'text')
    return inserts.map((each, nth) => {
      const columns = columnsOf(each)
      const rows = each.rows.map((row) => {
        const cells = columns.map((column) => place(row[column], typeOf(row[column])))
        return `(${cells.join()})`
      })
      const source = `select * from (values ${rows.join()}) as r(${columns.join()})
        where exists (select 1 from fence where id = ${ofRun})`
      return `, saved_${run}_${nth} as (${insertion(each, source)})`
    })
  })
  return { sql: parts.join(''), values }
}

const typeOf = (value: unknown): string => (typeof value === 'number' ? 'integer' : 'text')
