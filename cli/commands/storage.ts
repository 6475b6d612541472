import { z } from 'zod'
import type { Command } from '../command.ts'
import { operatorRequest } from '../operator-request.ts'
import { table } from '../table.ts'

const size = { kind: z.string(), rows: z.number(), bytes: z.number() }
const shape = z.object({
  database: z.string(),
  bytes: z.number(),
  freeBytes: z.number(),
  growthPerDay: z.number().optional(),
  diskFreeBytes: z.number().optional(),
  daysLeft: z.number().optional(),
  kinds: z.array(z.object(size)),
  tables: z.array(z.object({ name: z.string(), ...size })),
})

/** Asks the running server what takes room on the disk. */
export const command: Command = {
  usage: 'storage [--json]',
  example: 'oracle-runtime storage',
  notes:
    'The command asks the server of PUBLIC_URL, or of PORT on this machine, with the OPERATOR_TOKEN of the\n' +
    'environment or of DATA_DIR/dev.env.',
  options: { json: { type: 'boolean' } },
  async run(words) {
    const found = shape.parse(await operatorRequest('GET', '/storage'))
    if (words.has('json')) console.log(JSON.stringify(found, null, 2))
    else print(found)
  },
}

function print({ database, bytes, freeBytes, tables, ...rest }: z.output<typeof shape>): void {
  console.log(
    table(
      ['table', 'kind', 'rows', 'bytes'],
      tables.map(({ name, kind, rows, bytes }) => [name, kind, String(rows), String(bytes)]),
    ),
  )
  console.log(`\n${database}: ${bytes} bytes, ${freeBytes} of them free`)
  const { growthPerDay, diskFreeBytes, daysLeft } = rest
  console.log(
    growthPerDay === undefined
      ? 'Growth is known after a day.'
      : `It grows by ${growthPerDay} bytes a day.`,
  )
  if (diskFreeBytes !== undefined)
    console.log(
      `${diskFreeBytes} bytes are free on the disk${daysLeft === undefined ? '' : `: enough for ${daysLeft} days`}.`,
    )
}
