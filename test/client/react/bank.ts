import { z } from 'zod'
import { definePlugin } from '#core'

/** A plugin whose tool asks a person before it pays; it notes what it paid. */
export const bank = (paid: unknown[]) =>
  definePlugin({
    name: 'bank',
    summary: 'Pays.',
    visibility: 'always',
    tools: {
      pay: {
        description: 'Pays somebody.',
        effect: 'write',
        approve: true,
        input: z.object({ amount: z.number() }),
        output: z.object({ receipt: z.string() }),
        run: (args) => (paid.push(args), { receipt: `paid ${args.amount}` }),
      },
    },
  })
