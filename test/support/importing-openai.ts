import { registerHooks } from 'node:module'

// Boots an app with the OpenAI API beside one without, and prints how many modules the plugin adds, and whether one of them is a
// package's that the app does not have anyway.
const loaded = new Set<string>()
registerHooks({
  load(url, context, next) {
    loaded.add(url)
    return next(url, context)
  },
})
const { testApp, scriptedModel } = await import('#core/testing')
const env = { ORACLE_MNEMONIC: 'words of the test of imports' }
const open = (plugins: Parameters<typeof testApp>[0]['plugins']) =>
  testApp({ plugins, model: scriptedModel(['Yes.']), env })
const without = await open([])
const before = new Set(loaded)
const { default: openaiApi } = await import('../../plugins/openai-api/index.ts')
const app = await open([openaiApi])
const added = [...loaded].filter((url) => !before.has(url))
console.log(`own ${added.every((url) => url.includes('/plugins/openai-api/'))}`)
const { body } = await app.get('/health')
console.log(`health ${body.plugins['openai-api']}`)
await without.close()
await app.close()
