import { useEffect, useState } from 'react'
import { en } from './languages/en.ts'
import type { Words } from './words.ts'

/** The languages beside English, each fetched when somebody reads it. */
const others: Readonly<Record<string, () => Promise<Words>>> = {
  fr: async () => (await import('./languages/fr.ts')).fr,
  sw: async () => (await import('./languages/sw.ts')).sw,
}

/** The language that a page gives, else the one of a tag, else the browser's. It is English until another one is there. */
export function useLanguage(given: Words | undefined, locale: string | undefined): Words {
  const [found, setFound] = useState<Words>()
  useEffect(() => {
    if (given) return
    let isHere = true
    const name = (locale ?? navigator.language).slice(0, 2).toLowerCase()
    const read = Object.hasOwn(others, name) ? others[name] : undefined
    if (!read) setFound(undefined)
    else read().then((words) => isHere && setFound(words), console.error)
    return () => void (isHere = false)
  }, [given, locale])
  return given ?? found ?? en
}
