import { z } from 'zod'

/** What reaches the network, as the kernel hands it to plugins. */
export type Fetch = typeof globalThis.fetch

/** How long one address may take to answer, in milliseconds. */
const patienceMs = 8000
/** The most characters of an answer. */
const longestAnswer = 1024 * 1024
/** The most addresses that a variable may list. */
const mostAddresses = 10

/** Addresses that the operator sets, with commas between: https, or http for a machine of the operator's own. */
export const addressesSchema = z
  .string()
  .transform((text) => text.split(',').flatMap((one) => (one.trim() === '' ? [] : [one.trim()])))
  .refine(
    (urls) => urls.every(isAddress),
    'addresses such as https://api.drand.sh, with commas between',
  )
  .refine((urls) => urls.length <= mostAddresses, `at most ${mostAddresses} addresses`)
  .default([])

function isAddress(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  const isWeb = protocol === 'https:' || protocol === 'http:'
  return isWeb && [username, password, search, hash].every((part) => part === '')
}

/**
 * Asks one address of the operator's for JSON: within a time, up to a length, and without following a redirect, which
 * could lead to where the operator did not point.
 */
export async function askJson(
  fetch: Fetch,
  base: string,
  path: string,
  signal: AbortSignal,
): Promise<unknown> {
  const response = await fetch(`${base.replace(/\/+$/, '')}/${path}`, {
    signal: AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]),
    headers: { accept: 'application/json' },
    redirect: 'error',
  })
  if (!response.ok) {
    await response.body?.cancel()
    throw new Error(`status ${response.status}`)
  }
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > longestAnswer) throw new Error(`more than ${longestAnswer} characters`)
  }
  return JSON.parse(text + decoder.decode())
}
