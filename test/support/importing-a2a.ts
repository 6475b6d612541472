import { registerHooks } from 'node:module'

// Boots an app with the doors of the AI SDK, AG-UI and A2A, takes a turn, and prints whether a package of theirs was loaded before
// another agent asked for the card, and after.
const packages = ['@a2a-js', '/jose/', '/node_modules/ai/', '@ai-sdk/', '@ag-ui/']
let count = 0
registerHooks({
  load(url, context, next) {
    if (packages.some((name) => url.includes(name))) count++
    return next(url, context)
  },
})
const { testApp, scriptedModel } = await import('#core/testing')
const plugins = await Promise.all(
  ['a2a', 'ag-ui', 'ai-sdk'].map(
    async (name) => (await import(`../../plugins/${name}/index.ts`)).default,
  ),
)
const env = { ORACLE_MNEMONIC: 'words of the test of imports' }
const app = await testApp({ plugins, model: scriptedModel(['Yes.']), env })
await (await app.user()).say('Hello')
await app.get('/health')
console.log(`before ${count > 0}`)
await app.get('/.well-known/agent-card.json')
console.log(`after ${count > 0}`)
await app.close()
