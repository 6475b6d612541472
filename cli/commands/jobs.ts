import { z } from 'zod'
import { type Command, UsageError } from '../command.ts'
import { operatorRequest } from '../operator-request.ts'
import { table } from '../table.ts'

const shape = z.object({
  id: z.string(),
  plugin: z.string(),
  name: z.string(),
  key: z.string(),
  state: z.string(),
  attempts: z.number(),
  dueAt: z.string(),
  error: z.string().optional(),
})
const page = z.object({ jobs: z.array(shape), total: z.number() })
const verbs = ['list', 'retry', 'delete']
/** How much of an error stands in a row. */
const shownError = 60

/** Asks the operator's routes of jobs of the running server. */
export const command: Command = {
  usage:
    'jobs [list | retry <id> | delete <id>] [--state dead] [--plugin name] [--limit 50] [--offset 0] [--json]',
  example: 'oracle-runtime jobs list --state dead',
  notes:
    'The command asks the server of PUBLIC_URL, or of PORT on this machine, with the OPERATOR_TOKEN of the\n' +
    'environment or of DATA_DIR/dev.env. States: due, running, dead, done.',
  options: {
    state: { type: 'string' },
    plugin: { type: 'string' },
    limit: { type: 'string' },
    offset: { type: 'string' },
    json: { type: 'boolean' },
  },
  mostPositionals: 2,
  async run(words) {
    const [verb = 'list', id] = words.positionals
    if (!verbs.includes(verb))
      throw new UsageError(`"${verb.slice(0, 40)}" is none of ${verbs.join(', ')}.`)
    if (verb !== 'list' && !id)
      throw new UsageError(`Name the job: oracle-runtime jobs ${verb} <id>. "jobs list" shows ids.`)
    if (verb === 'list' && id !== undefined)
      throw new UsageError('"jobs list" takes no id: filter with --state and --plugin.')
    if (verb === 'retry') {
      const job = shape.parse(
        await operatorRequest('POST', `/jobs/${encodeURIComponent(id!)}/retry`),
      )
      console.log(words.has('json') ? JSON.stringify(job, null, 2) : `${job.id} is ${job.state}.`)
      return
    }
    if (verb === 'delete') {
      await operatorRequest('DELETE', `/jobs/${encodeURIComponent(id!)}`)
      console.log(`${id} was deleted.`)
      return
    }
    const query = new URLSearchParams()
    for (const name of ['state', 'plugin', 'limit', 'offset']) {
      const value = words.text(name)
      if (value !== undefined) query.set(name, value)
    }
    const found = page.parse(await operatorRequest('GET', `/jobs?${query}`))
    if (words.has('json')) console.log(JSON.stringify(found, null, 2))
    else print(found)
  },
}

function print({ jobs, total }: z.output<typeof page>): void {
  if (jobs.length > 0)
    console.log(
      table(
        ['id', 'job', 'state', 'attempts', 'due', 'error'],
        jobs.map(({ id, plugin, name, state, attempts, dueAt, error = '' }) => [
          id,
          `${plugin}.${name}`,
          state,
          String(attempts),
          dueAt,
          error.replace(/\s+/g, ' ').slice(0, shownError),
        ]),
      ),
    )
  console.log(`${jobs.length} of ${total} jobs`)
}
