import { z } from 'zod'
import { definePlugin } from '#core'

/** A plugin whose payments wait for a person, and how often it has paid. It may ask by a sentence of its own. */
export function asksFirst(question?: string) {
  const seen = { paid: 0 }
  const plugin = definePlugin({
    name: 'bank',
    summary: 'Pays.',
    visibility: 'always',
    tools: {
      pay: {
        description: 'Pays.',
        effect: 'write',
        approve: question === undefined ? true : () => question,
        input: z.object({ amount: z.number().optional() }),
        run: () => {
          seen.paid++
          return 'paid'
        },
      },
    },
  })
  return { plugin, seen }
}
