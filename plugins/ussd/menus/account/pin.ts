import { z } from 'zod'

/** What a caller types as a PIN. */
export const pinSchema = z.string().regex(/^[0-9]{5}$/, 'pinDigits')
