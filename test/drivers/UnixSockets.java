import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import javax.net.SocketFactory;

/** Lets the JDBC driver reach a server through the Unix socket in socketFactoryArg, whatever host its URL names. */
public class UnixSockets extends SocketFactory {
    private final UnixDomainSocketAddress address;

    public UnixSockets(String path) {
        address = UnixDomainSocketAddress.of(path);
    }

    @Override
    public Socket createSocket() {
        return new UnixSocket();
    }

    @Override
    public Socket createSocket(String host, int port) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Socket createSocket(String host, int port, InetAddress localHost, int localPort) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Socket createSocket(InetAddress host, int port) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Socket createSocket(InetAddress host, int port, InetAddress localHost, int localPort) {
        throw new UnsupportedOperationException();
    }

    /** What the driver uses of a Socket.  Options of TCP have no effect. */
    private class UnixSocket extends Socket {
        private SocketChannel channel;
        private int timeout;

        @Override
        public void connect(SocketAddress ignored, int timeout) throws IOException {
            channel = SocketChannel.open(address);
            channel.configureBlocking(false);
        }

        /** Waits until the channel is ready, for as long as reading may take. */
        private void await(Selector selector) throws IOException {
            if (selector.select(timeout) == 0) {
                throw new SocketTimeoutException();
            }
            selector.selectedKeys().clear();
        }

        @Override
        public InputStream getInputStream() throws IOException {
            Selector selector = Selector.open();
            channel.register(selector, SelectionKey.OP_READ);
            return new InputStream() {
                @Override
                public int read() throws IOException {
                    byte[] one = new byte[1];
                    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
                }

                @Override
                public int read(byte[] bytes, int start, int length) throws IOException {
                    ByteBuffer buffer = ByteBuffer.wrap(bytes, start, length);
                    int got;
                    while ((got = channel.read(buffer)) == 0) {
                        await(selector);
                    }
                    return got;
                }
            };
        }

        @Override
        public OutputStream getOutputStream() throws IOException {
            Selector selector = Selector.open();
            channel.register(selector, SelectionKey.OP_WRITE);
            return new OutputStream() {
                @Override
                public void write(int one) throws IOException {
                    write(new byte[] {(byte) one}, 0, 1);
                }

                @Override
                public void write(byte[] bytes, int start, int length) throws IOException {
                    ByteBuffer buffer = ByteBuffer.wrap(bytes, start, length);
                    while (channel.write(buffer) >= 0 && buffer.hasRemaining()) {
                        await(selector);
                    }
                }
            };
        }

        @Override
        public boolean isConnected() {
            return channel != null;
        }

        @Override
        public boolean isClosed() {
            return channel != null && !channel.isOpen();
        }

        @Override
        public void close() throws IOException {
            if (channel != null) {
                channel.close();
            }
        }

        @Override
        public void setSoTimeout(int timeout) {
            this.timeout = timeout;
        }

        @Override
        public int getSoTimeout() {
            return timeout;
        }

        @Override
        public void setTcpNoDelay(boolean on) {
        }

        @Override
        public void setKeepAlive(boolean on) {
        }

        @Override
        public int getSendBufferSize() {
            return 8192;
        }

        @Override
        public int getReceiveBufferSize() {
            return 8192;
        }
    }
}
