import { z } from 'zod'
import { toldAddress } from './signalling/addresses.ts'
import type { Command } from './speech/command.ts'

const whole = (least: number, most: number) => z.coerce.number().int().min(least).max(most)

/** The speech server that always needs a key. */
export const publicSpeech = 'https://api.openai.com/v1'
const name = z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'small letters, digits and - only')

const relay = /^turns?:[a-z0-9.:[\]-]{1,253}(?:\?transport=(?:udp|tcp))?$/i

/** The ports of a range such as `40000-40199`. */
function portsOf(text: string, ctx: z.RefinementCtx): [number, number] {
  const [, from, to] = /^(\d{1,5})-(\d{1,5})$/.exec(text) ?? []
  const range: [number, number] = [Number(from), Number(to)]
  if (range[0] >= 1024 && range[1] <= 65_535 && range[1] > range[0]) return range
  ctx.addIssue('a range of at least two ports from 1024 to 65535, such as 40000-40199')
  return z.NEVER
}

function addressOf(text: string, ctx: z.RefinementCtx): string {
  try {
    return toldAddress(text)
  } catch (error) {
    ctx.addIssue(error instanceof Error ? error.message : String(error))
    return z.NEVER
  }
}

/** The addresses of relays. */
function relaysOf(text: string, ctx: z.RefinementCtx): readonly string[] {
  const urls = text.split(',').map((url) => url.trim())
  if (urls.length <= 10 && urls.every((url) => relay.test(url))) return urls
  ctx.addIssue('addresses such as turn:relay.example.org:3478?transport=udp, with commas between')
  return z.NEVER
}

function commandOf(text: string, ctx: z.RefinementCtx): Command {
  const fail = () => {
    ctx.addIssue(
      'a JSON array of a program and its arguments, such as ["whisper","--language","{language}"]',
    )
    return z.NEVER
  }
  try {
    const parsed = z.array(z.string().min(1).max(1_000)).min(1).max(50).safeParse(JSON.parse(text))
    return parsed.success ? [parsed.data[0] ?? '', ...parsed.data.slice(1)] : fail()
  } catch {
    return fail()
  }
}

/** The variables of calls. */
export const environment = {
  CALLS_ADDRESS: z
    .string()
    .transform(addressOf)
    .optional()
    .describe(
      'The public address, where the server stands behind one-to-one NAT; lan:192.168.1.10 for callers of one network',
    ),
  CALLS_PORTS: z
    .string()
    .default('40000-40199')
    .transform(portsOf)
    .describe('The UDP ports for sound and picture'),
  CALLS_HEARING: name
    .default('browser')
    .describe(
      'What turns speech into text: browser, typed, command, openai, or what a plugin brings under this name',
    ),
  CALLS_VOICE: name
    .default('auto')
    .describe(
      'What turns text into speech: espeak, browser, command, openai, none, what a plugin brings, or auto: espeak-ng, else the browser',
    ),
  CALLS_SPEECH_URL: z
    .url({ protocol: /^https?$/ })
    .default(publicSpeech)
    .describe('The speech server of CALLS_HEARING=openai and CALLS_VOICE=openai'),
  CALLS_SPEECH_KEY: z
    .string()
    .min(1)
    .optional()
    .meta({ secret: true })
    .describe('The key of the speech server; the key of a model is never used for speech'),
  CALLS_HEARING_MODEL: z
    .string()
    .min(1)
    .default('gpt-4o-mini-transcribe')
    .describe('The model of the speech server that hears'),
  CALLS_VOICE_MODEL: z
    .string()
    .min(1)
    .default('gpt-4o-mini-tts')
    .describe('The model of the speech server that speaks'),
  CALLS_VOICE_NAME: z
    .string()
    .min(1)
    .max(64)
    .default('alloy')
    .describe('The voice of the speech server, where a call names none'),
  CALLS_HEARING_COMMAND: z
    .string()
    .transform(commandOf)
    .optional()
    .describe('A program that reads a WAV file and writes the text, as a JSON array'),
  CALLS_VOICE_COMMAND: z
    .string()
    .transform(commandOf)
    .optional()
    .describe('A program that reads a text and writes a WAV file, as a JSON array'),
  CALLS_SILENCE_MS: whole(200, 5_000)
    .default(600)
    .describe('The silence that ends what somebody says'),
  CALLS_VIDEO: z
    .enum(['on', 'off'])
    .default('on')
    .describe(
      'Whether a call may have the picture of a camera, which the agent looks at when asked',
    ),
  CALLS_TURN_URLS: z
    .string()
    .transform(relaysOf)
    .optional()
    .describe(
      'Relays of your own for networks without UDP: turn: and turns: addresses, with commas between',
    ),
  CALLS_TURN_SECRET: z
    .string()
    .min(8)
    .optional()
    .meta({ secret: true })
    .describe('The static-auth-secret of the relays'),
  CALLS_PRICE_PER_MINUTE: whole(0, 1_000_000_000)
    .default(0)
    .describe(
      'What a minute of a call costs beside its turns, in the smallest unit of the currency',
    ),
  CALLS_WARM: z
    .enum(['on', 'off'])
    .default('off')
    .describe('Whether what calls need is imported at the start, and not by the first call'),
  CALLS_MAX: whole(0, 1_000).default(20).describe('Calls at once in this process'),
  CALLS_PER_USER: whole(1, 10).default(1).describe('Calls at once of one user'),
  CALLS_MINUTES: whole(1, 1_440).default(30).describe('How long one call may last'),
  CALLS_MINUTES_PER_DAY: whole(1, 1_440)
    .default(120)
    .describe('How many minutes one user may call in a day'),
  CALLS_IDLE_SECONDS: whole(10, 3_600)
    .default(120)
    .describe('After so much silence the agent hangs up'),
}
