/** What a try needs: the address of a running server, and a key of a person. */
export interface Tried {
  readonly url: string
  readonly key: string
}

/** A question that every door can answer. */
const question = 'Say hello in one word.'
const patienceMs = 60_000

async function post({ url, key }: Tried, path: string, body: object, headers = {}) {
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(patienceMs),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${answer.status} ${sentenceIn(text)}`)
  return text
}

const fieldsOf = (text: string) => {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {} // a page of a proxy, for example
  }
}

/** What an answer says went wrong, whichever shape its protocol gives it. */
function sentenceIn(text: string): string {
  const { message, error } = fieldsOf(text)
  const said = message ?? (typeof error === 'string' ? error : error?.message)
  return typeof said === 'string' ? said : text.slice(0, 200)
}

/** The objects of a stream of events. */
const eventsIn = (text: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => fieldsOf(line.slice('data: '.length)))

/** The pieces of words that events of these types have, and what they say went wrong. */
function wordsIn(text: string, piece: string, failure: string): string {
  const events = eventsIn(text)
  const failed = events.find(({ type }) => type === failure)
  if (failed) throw new Error(String(failed.errorText ?? failed.message))
  return events.flatMap(({ type, delta }) => (type === piece ? String(delta) : [])).join('')
}

const id = () => `try-${crypto.randomUUID()}`

/** One question through each door, asked as a client of its protocol does; what came, in words. */
export const tries: Readonly<Record<string, (tried: Tried) => Promise<string>>> = {
  async 'openai-api'(tried) {
    const messages = [{ role: 'user', content: question }]
    const text = await post(tried, '/openai/v1/chat/completions', { model: 'oracle', messages })
    return String(fieldsOf(text).choices?.[0]?.message?.content)
  },
  async mcp(tried) {
    const params = { name: 'ask', arguments: { message: question } }
    const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
    const accept = 'application/json, text/event-stream'
    const revision = { accept, 'mcp-protocol-version': '2025-11-25' }
    const text = await post(tried, '/mcp', request, revision)
    const { result, error } = text.startsWith('{') ? fieldsOf(text) : (eventsIn(text).at(-1) ?? {})
    if (error) throw new Error(String(error.message))
    const said: readonly { text?: string }[] = result?.content ?? []
    const words = said.map((part) => part.text ?? '').join('')
    if (result?.isError) throw new Error(words)
    return String(result?.structuredContent?.text ?? words)
  },
  async 'ai-sdk'(tried) {
    const messages = [{ id: id(), role: 'user', parts: [{ type: 'text', text: question }] }]
    const text = await post(tried, '/ai-sdk/chat', { id: id(), messages })
    return wordsIn(text, 'text-delta', 'error')
  },
  async 'ag-ui'(tried) {
    const messages = [{ id: id(), role: 'user', content: question }]
    const text = await post(tried, '/ag-ui', { threadId: id(), runId: id(), messages })
    return wordsIn(text, 'TEXT_MESSAGE_CONTENT', 'RUN_ERROR')
  },
  async a2a(tried) {
    const message = { messageId: id(), role: 'ROLE_USER', parts: [{ text: question }] }
    const request = { jsonrpc: '2.0', id: 1, method: 'SendMessage', params: { message } }
    const text = await post(tried, '/a2a', request, { 'a2a-version': '1.0' })
    const { result, error } = fieldsOf(text)
    if (error) throw new Error(String(error.message))
    const parts: readonly { text?: string }[] = result?.task?.artifacts?.[0]?.parts ?? []
    return parts.map((part) => part.text ?? '').join('')
  },
}
