import { setTimeout as pause } from 'node:timers/promises'
import { RuntimeError } from '../../../errors.ts'
import { modelFault } from './model-fault.ts'
import { poster, type ProviderExchange } from './post.ts'
import { providerFault, type Asked } from './provider-fault.ts'
import { readText } from './read-text.ts'
import { waitBefore } from './retry.ts'
import { usualLimits } from './wire.ts'

/** One question to a provider whose answer is a single JSON text: a list of models, embeddings, what a model can do. */
export interface Question {
  readonly url: URL
  readonly headers?: Readonly<Record<string, string>>
  /** The JSON to post. Without a body the address is only read. */
  readonly body?: string
  readonly asked: Omit<Asked, 'host'>
  readonly signal: AbortSignal
  /** How often it is asked, where the fault may pass: four times by default. */
  readonly attempts?: number
  /** Told before each further attempt. */
  readonly onRetry?: (attempt: number) => void
  /** How long the server may take until it begins to answer. */
  readonly headMs?: number
}

/** The most characters of an answer: 96 embeddings of 3,072 numbers each are a fifth of it. */
const mostText = 32 * 1024 * 1024

/** Asks a provider for one JSON text, with the retries and faults of a model's call. Nothing of the JSON is checked. */
export async function askProvider(question: Question): Promise<unknown> {
  const { signal, attempts = usualLimits.attempts } = question
  const asked = { ...question.asked, host: question.url.host }
  for (let attempt = 1; ; attempt++) {
    try {
      return await once(question, asked)
    } catch (error) {
      signal.throwIfAborted()
      const wait = waitBefore(attempt, error)
      if (attempt >= attempts || wait === undefined) throw error
      question.onRetry?.(attempt + 1)
      await pause(wait, undefined, { signal }).catch(() => signal.throwIfAborted())
    }
  }
}

async function once(question: Question, asked: Asked): Promise<unknown> {
  const { url, headers = {}, body, signal, headMs = usualLimits.idleMs } = question
  const json = { accept: 'application/json', ...(body !== undefined && ofJson), ...headers }
  const post = poster(url, json, asked.settings.address)
  const exchange = await post(body, signal, { connectMs: usualLimits.connectMs, headMs })
  let whole = false
  try {
    const text = await readText(exchange, mostText)
    if (text.length >= mostText)
      throw fault(asked, 'MODEL_ANSWER_TOO_LONG', 'sent too long a text.')
    if (exchange.status !== 200) throw refusal(exchange, text, asked)
    whole = true
    return parsed(text, asked)
  } finally {
    if (whole) exchange.finish()
    else exchange.destroy()
  }
}

const ofJson = { 'content-type': 'application/json' }

function parsed(text: string, asked: Asked): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw fault(asked, 'MODEL_ANSWER_INVALID', 'answered with what is no JSON.')
  }
}

function refusal({ status, headers }: ProviderExchange, text: string, asked: Asked): RuntimeError {
  return providerFault({ status, headers, text }, asked)
}

function fault(asked: Asked, code: 'MODEL_ANSWER_TOO_LONG' | 'MODEL_ANSWER_INVALID', what: string) {
  return modelFault(code, asked.host, what, {
    check: `${asked.settings.address} is most likely not the address of an API.`,
  })
}
