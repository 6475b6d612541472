import { createContext, useContext } from 'react'
import type { ChatAddress } from '../core/client.ts'

/** Which conversation the parts below a thread belong to. */
export const AddressContext = createContext<ChatAddress>({ oracleDid: '', sessionId: '' })

/** The conversation that a part stands in; an empty session before anything was said. */
export const useAddress = (): ChatAddress => useContext(AddressContext)
