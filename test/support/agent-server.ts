import { appendFileSync } from 'node:fs'
import { z } from 'zod'
import { createApp, definePlugin } from '#core'

/** A whole server with a tool that pays, in a process that dies where DIES says: at the mark, or in the effect. */
const { PAYMENTS = '', DIES } = process.env

const dieAt = (place: string) => {
  if (DIES === place) process.kill(process.pid, 'SIGKILL')
}

const ledger = definePlugin({
  name: 'ledger',
  summary: 'Pays.',
  tools: {
    pay: {
      description: 'Pays an amount.',
      input: z.object({ amount: z.number() }),
      can: { can: 'ledger/pay' },
      run({ amount }) {
        dieAt('mark')
        appendFileSync(PAYMENTS, `${amount}\n`)
        dieAt('effect')
        return { paid: amount }
      },
    },
  },
})

const app = await createApp({ plugins: [ledger] })
await app.listen()
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
