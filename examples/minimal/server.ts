import { defineApp, definePlugin } from 'oracle-runtime'
import { z } from 'zod'

const dice = definePlugin({
  name: 'dice',
  summary: 'Rolls a dice.',
  routes: {
    'GET /dice': {
      auth: 'public',
      input: z.object({ sides: z.coerce.number().int().min(2).max(100).default(6) }),
      run: ({ sides }) => ({ rolled: 1 + Math.floor(Math.random() * sides) }),
    },
  },
})

const app = defineApp({ plugins: [dice] })
export default app
if (import.meta.main) await app.listen()
