import { z } from 'zod'
import { definePlugin, type ModelProvider } from '#core'
import { compatible, speaksResponses, type Compatible } from './compatible.ts'

/** The variables of the providers: a key and an address each, asked for only when MODEL names the provider. */
const env = Object.fromEntries(
  Object.values(compatible).flatMap(({ label, key, base, address }) => [
    [
      key,
      z
        .string()
        .optional()
        .meta({ secret: true, description: `Key of ${label}` }),
    ],
    [
      base,
      z
        .string()
        .optional()
        .describe(`Address of ${label}${address ? `; default ${address}` : ''}`),
    ],
  ]),
)

/** What is wrong with a base address; undefined when nothing is. */
const addressFault = (address: string, setting: string, key: string) =>
  isAddress(address)
    ? undefined
    : {
        message: `${setting} is not an http or https address.`,
        hint: `Write an address like https://api.example.com/v1, and put the key into ${key}.`,
      }

function isAddress(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return Boolean(url && /^https?:$/.test(url.protocol) && !url.username && !url.password)
}

/** The address that needs a key. Another compatible endpoint may work without one. */
const needsKey = (address: string, usual: string | undefined): boolean =>
  usual !== undefined && new URL(address).host === new URL(usual).host

type Env = Readonly<Record<string, string | undefined>>

function providerOf(name: string, row: Compatible): ModelProvider<Env> {
  const { label, key, base, address, keyless } = row
  return {
    label,
    free: keyless,
    needs: keyless ? [] : address ? [[key, base]] : [key, base],
    ...(name === 'openai' && { prefixes: ['gpt-', 'o3', 'o4'] }),
    fault(model, { env, settings, key: given, variable = 'MODEL' }) {
      const own = settings.baseUrl
      const url = own ?? env[base] ?? address ?? ''
      const wrong = addressFault(url, own ? `baseUrl of "${name}/${model}"` : base, key)
      if (wrong || keyless || given || env[key] || !needsKey(url, address)) return wrong
      return {
        message: `${variable} names "${name}/${model}", but ${key} is not set.`,
        hint: `Set ${key}, or set ${base} to a compatible endpoint that needs no key.`,
      }
    },
    async open(model, { env, settings, key: given }) {
      const options = {
        id: `${name}/${model}`,
        name: model,
        apiKey: given ?? env[key],
        baseUrl: settings.baseUrl ?? env[base],
        settings,
        row,
      }
      if (speaksResponses(options)) {
        const { openResponses } = await import('./responses/open.ts')
        return openResponses(options)
      }
      const { ChatModel } = await import('./chat/model.ts')
      return new ChatModel(options)
    },
    async list(signal, { env }) {
      const { listModels } = await import('./chat/list.ts')
      return listModels({ apiKey: env[key], baseUrl: env[base], row, signal })
    },
    ...(!row.withoutVectors && { embed: embedderOf(name, row) }),
  }
}

function embedderOf(name: string, row: Compatible): NonNullable<ModelProvider<Env>['embed']> {
  return async (model, { env, settings, key }) => {
    const { EmbeddingsModel } = await import('./embedder.ts')
    const { keyFrom, headers, attempts } = settings
    return new EmbeddingsModel({
      id: `${name}/${model}`,
      name: model,
      apiKey: key ?? env[row.key],
      baseUrl: settings.baseUrl ?? env[row.base],
      row,
      keyFrom,
      headers,
      attempts,
    })
  }
}

export default definePlugin({
  name: 'models-openai',
  summary: 'Models of OpenAI, and of every provider that speaks one of its two wires.',
  visibility: 'silent',
  stability: 'stable',
  category: 'core',
  env,
  models: Object.fromEntries(
    Object.entries(compatible).map(([name, row]) => [name, providerOf(name, row)]),
  ),
})
