import { fakeProvider, type FakeProvider, type ProviderRules } from '#core/testing'

/** A provider whose models want something of their own back, and how a server is told of it. */
export interface Dialect {
  /** The wire, and what it gives back. */
  readonly name: string
  /** What MODEL says. */
  readonly id: string
  readonly key: string
  readonly address: string
  readonly rules?: ProviderRules
  /** What stands after the address of the provider, for a package that is told of both its address and its key by the settings. */
  readonly path?: string
  /** What MODEL_SETTINGS says of the model, beside how much it thinks. */
  readonly settings?: Readonly<Record<string, unknown>>
}

const thinksAloud = { chat: 'reasoning_content' } as const
const compatible = (provider: string, kept: string, rules: ProviderRules): Dialect => ({
  name: `${kept} of ${provider}`,
  id: `${provider}/fake`,
  key: `${provider.toUpperCase().replace('-', '_')}_API_KEY`,
  address: `${provider.toUpperCase().replace('-', '_')}_BASE_URL`,
  rules,
})

const packaged = (maker: string, version: number, path: string): Dialect => ({
  name: `a package of ${maker}, version ${version}`,
  id: `ai-sdk/${maker}/fake-large`,
  key: `SDK_${maker.toUpperCase()}_KEY`,
  address: `SDK_${maker.toUpperCase()}_ADDRESS`,
  path,
})

/** The packages of the AI SDK that `dialects` name, by the folders that they are installed in. */
export const sdkPackages: Readonly<Record<string, string>> = {
  '@ai-sdk/anthropic': '@ai-sdk/anthropic',
  '@ai-sdk/google': 'ai-sdk-google-v3',
}

/** Every way in which the bundled providers give back what is theirs. */
export const dialects: readonly Dialect[] = [
  {
    name: 'blocks of Messages',
    id: 'anthropic/fake',
    key: 'ANTHROPIC_API_KEY',
    address: 'ANTHROPIC_BASE_URL',
  },
  {
    name: 'items of Responses',
    id: 'openai/fake',
    key: 'OPENAI_API_KEY',
    address: 'OPENAI_BASE_URL',
    settings: { wire: 'responses' },
  },
  {
    name: 'parts of generateContent',
    id: 'google/fake',
    key: 'GOOGLE_API_KEY',
    address: 'GOOGLE_BASE_URL',
  },
  compatible('together', 'extra_content', { chat: 'extra_content' }),
  compatible('openrouter', 'reasoning_details', { chat: 'reasoning_details' }),
  compatible('deepseek', 'reasoning_content', thinksAloud),
  compatible('moonshotai', 'reasoning_content', thinksAloud),
  compatible('z-ai', 'reasoning_content', thinksAloud),
  packaged('anthropic', 4, '/v1'),
  packaged('google', 3, '/v1beta'),
]

/** What the model of a dialect thinks: words that occur nowhere else. */
export const thoughtOf = ({ id }: Dialect): string => `Only ${id.replace('/', ' ')} thinks so.`

/** A dialect with its provider. */
export interface Spoken {
  readonly dialect: Dialect
  readonly provider: FakeProvider
}

/** Opens a strict provider for each dialect. */
export const openDialects = (all: readonly Dialect[] = dialects): Promise<Spoken[]> =>
  Promise.all(
    all.map(async (dialect) => ({ dialect, provider: await fakeProvider(dialect.rules) })),
  )

/** The environment of a server that offers the models of these dialects. */
export function envOf(all: readonly Spoken[]): Record<string, string> {
  const env: Record<string, string> = {
    MODEL: all.map(({ dialect }) => dialect.id).join(),
    MODEL_SETTINGS: JSON.stringify(
      Object.fromEntries([
        ['*', { reasoning: 'low' }],
        ...all.map(({ dialect: { id, settings, path, key }, provider }) => [
          id,
          { ...settings, ...(path && { baseUrl: provider.url + path, keyFrom: key }) },
        ]),
      ]),
    ),
  }
  for (const { dialect, provider } of all) {
    env[dialect.key] = provider.key
    env[dialect.address] = provider.url
  }
  return env
}

const note = (word: string) => ({ name: 'note', args: { word } })

/** Has the provider answer a turn of three calls, in which every answer with calls is signed. */
export function noteThree({ dialect, provider }: Spoken): void {
  const reasoning = thoughtOf(dialect)
  provider.answer(
    { reasoning, calls: [note('red'), note('blue')] },
    { reasoning, text: 'One more.', calls: [note('green')] },
    'Noted.',
  )
}

/** Has the provider answer a turn of three calls, the second of which needs a person's word. */
export function keepOne({ dialect, provider }: Spoken): void {
  const reasoning = thoughtOf(dialect)
  provider.answer(
    { reasoning, calls: [note('red')] },
    { reasoning, calls: [{ name: 'keep', args: { word: 'gold' } }] },
    'Kept.',
  )
}

/** What models are given back by the providers themselves, and no one else may see. */
const sealed = /"(?:signature|thoughtSignature|thought_signature|encrypted_content)":"([^"]{40,})"/g

/** The signatures that a provider got back. */
export function signaturesAt({ provider }: Spoken): string[] {
  const found = new Set<string>()
  for (const { text } of provider.requests)
    for (const [, signature = ''] of text.matchAll(sealed)) found.add(signature)
  return [...found]
}
