import { z } from 'zod'

const whole = (least: number, most: number) => z.coerce.number().int().min(least).max(most)
const secret = z.string().regex(/^[0-9a-fA-F]{64}$/, '64 hexadecimal digits')

/** The variables of memory. */
export const environment = {
  MEMORY_MODE: z
    .enum(['ask', 'on', 'off'])
    .default('ask')
    .describe('The mode of a person who has not chosen: ask, on or off'),
  MEMORY_MODEL: z
    .string()
    .optional()
    .describe('The model that notices; by default MODEL_SMALL, else the default model'),
  MEMORY_AFTER_SECONDS: whole(0, 86_400)
    .default(60)
    .describe('How long a session is quiet before it is read for memories'),
  MEMORY_AFTER_TURNS: whole(1, 50)
    .default(6)
    .describe('After so many turns a session is read for memories although it is not quiet'),
  MEMORY_PROMPT_TOKENS: whole(50, 4_000)
    .default(400)
    .describe('How many tokens of a prompt are memories, at most'),
  MEMORY_PROMPT_COUNT: whole(1, 100)
    .default(12)
    .describe('How many memories a prompt has, at most'),
  MEMORY_MAX: whole(1, 10_000).default(2_000).describe('How many memories of a person are kept'),
  MEMORY_PASSAGES: z
    .enum(['on', 'off'])
    .default('on')
    .describe('Whether what was said in conversations can be found again by its words'),
  MEMORY_ENGINE_USER_ID: z
    .string()
    .regex(/^@[^\s:]+:\S+$/, 'an account such as @memory:example.org')
    .optional()
    .describe('The account whose invitation to the room of person and oracle turns memory on'),
  MEMORY_KEY: secret
    .optional()
    .meta({ secret: true })
    .describe('Seals what is remembered in the database: 64 hexadecimal digits'),
  MEMORY_KEY_PREVIOUS: secret
    .optional()
    .meta({ secret: true })
    .describe('The key before MEMORY_KEY, which opens what it sealed'),
}

/** The variables, parsed. */
export interface MemoryEnv {
  readonly MEMORY_MODE: 'ask' | 'on' | 'off'
  readonly MEMORY_MODEL?: string | undefined
  readonly MEMORY_AFTER_SECONDS: number
  readonly MEMORY_AFTER_TURNS: number
  readonly MEMORY_PROMPT_TOKENS: number
  readonly MEMORY_PROMPT_COUNT: number
  readonly MEMORY_MAX: number
  readonly MEMORY_PASSAGES: 'on' | 'off'
  readonly MEMORY_ENGINE_USER_ID?: string | undefined
  readonly MEMORY_KEY?: string | undefined
  readonly MEMORY_KEY_PREVIOUS?: string | undefined
}
