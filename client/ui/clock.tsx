import { useEffect, useState } from 'react'
import { useClientIfAny } from '../react/provider.ts'
import { useAddress } from './address.ts'
import { useWords } from './words.ts'

/** A token lives for minutes, so a clock that is off by less is no reason to refuse one. */
const leastMs = 60_000

/** Says that this device's clock is wrong, where the oracle's is another: such a clock makes tokens that nobody takes. */
export function ClockFault() {
  const words = useWords()
  const client = useClientIfAny()
  const { oracleDid, overrides } = useAddress()
  const [off, setOff] = useState(0)
  useEffect(() => {
    let isHere = true
    const look = async () => {
      if (!client || oracleDid === '') return
      const { apiUrl } = await client.config(oracleDid, overrides).read()
      const { headers } = await fetch(`${apiUrl}/health`, { cache: 'no-store' })
      const now = Date.parse(headers.get('date') ?? '')
      if (isHere && now) setOff(Date.now() - now)
    }
    look().catch(() => undefined) // Without an answer nothing is known of its clock.
    return () => void (isHere = false)
  }, [client, oracleDid, overrides?.baseUrl])
  if (Math.abs(off) < leastMs) return null
  const minutes = Math.round(Math.abs(off) / 60_000)
  const [count, unit] = minutes < 60 ? [minutes, 'minute'] : [Math.round(minutes / 60), 'hour']
  const time = count.toLocaleString(words.locale, { style: 'unit', unit, unitDisplay: 'long' })
  return <p>{off > 0 ? words.clockFast(time) : words.clockSlow(time)}</p>
}
