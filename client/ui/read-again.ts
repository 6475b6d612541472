import { useEffect, useRef } from 'react'
import { OracleError } from '../core/error.ts'
import { isPassing } from './outbox.ts'

/** How soon what could not be read is read again by itself: later each time, until the server is there. */
const readAgain = { firstMs: 2_000, mostMs: 30_000 }

/** Reads again what could not be read, where that is likely to pass. */
export function useReadAgain(fault: unknown, onReadAgain: () => void): void {
  const tries = useRef(0)
  useEffect(() => {
    if (!(fault instanceof OracleError && isPassing(fault))) return void (tries.current = 0)
    const wait = Math.min(readAgain.mostMs, readAgain.firstMs * 2 ** tries.current++)
    const timer = setTimeout(onReadAgain, wait)
    return () => clearTimeout(timer)
  }, [fault])
}
